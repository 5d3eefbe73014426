"""Noisy-channel reranking: several runs choose among the candidate translations of one."""
