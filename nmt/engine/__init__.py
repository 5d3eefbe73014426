"""CTranslate2 as another engine: conversion, search, and a comparison with the native one."""
