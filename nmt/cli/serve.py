"""The command `nmt serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from nmt.cli.app import app
from nmt.cli.options import SearchOption, option, runs
from nmt.console import say, show
from nmt.serve.settings import Limits, ServeOptions
from nmt.share import EngineName


@app.command()
def serve(
    run: Annotated[
        list[Path],
        option(
            "--run",
            "Run directory; repeat for further directions.  [default: the newest usable one in runs/]",
            "DIR",
            autocompletion=runs,
        ),
    ] = [],
    model: Annotated[
        list[Path],
        option("--model", "Exported directory; repeat for further directions.", "DIR"),
    ] = [],
    host: Annotated[str, option("--host", "Address or host name to listen on.", "ADDRESS")] = ServeOptions.host,
    port: Annotated[
        int, option("--port", "Port to listen on; 0: any free one.", "N", min=0, max=65535)
    ] = ServeOptions.port,
    engine: Annotated[
        EngineName,
        option("--engine", "auto: CTranslate2 (an extra) where it supports the request, else PyTorch."),
    ] = ServeOptions.engine,
    int8: Annotated[bool, option("--int8", "With CTranslate2: 8-bit weights.")] = False,
    zero_shot: Annotated[
        bool,
        option("--zero-shot", "With several directions: also translate directly between others."),
    ] = False,
    tm: Annotated[
        list[str],
        option("--tm", "Translation memory, as for nmt translate; may be repeated.", "F"),
    ] = [],
    overrides: SearchOption = [],
    threads: Annotated[
        int | None, option("--threads", "Translation threads.  [default: one per core]", "N", min=1)
    ] = None,
    keys: Annotated[Path | None, option("--keys", "File of API keys; requests then need a key.", "F")] = None,
    new_key: Annotated[
        str | None,
        option("--new-key", "Add a key to --keys, print it, and exit.", "NAME"),
    ] = None,
    rate: Annotated[
        int, option("--rate", "Requests per minute and client; 0: no limit.", "N", min=0)
    ] = ServeOptions.rate,
    origin: Annotated[
        list[str],
        option(
            "--origin",
            "Site that may use this server: its own behind a proxy, or another (CORS); may be repeated.",
            "URL",
        ),
    ] = [],
    allow: Annotated[
        list[str],
        option("--allow", "Search setting that requests may change, such as beam=10; may be repeated.", "KEY[=MAX]"),
    ] = [],
    max_characters: Annotated[
        int, option("--max-characters", "Maximum characters of a request.", "N", min=1)
    ] = Limits.characters,
    max_items: Annotated[int, option("--max-items", "Maximum texts of a request.", "N", min=1)] = Limits.items,
    max_bytes: Annotated[int, option("--max-bytes", "Maximum bytes of a request.", "N", min=1)] = Limits.bytes,
    max_file_bytes: Annotated[
        int, option("--max-file-bytes", "Maximum bytes of a file.", "N", min=1)
    ] = Limits.file_bytes,
    queue: Annotated[
        int, option("--queue", "Maximum waiting requests; others get 503.", "N", min=1)
    ] = ServeOptions.queue,
    timeout: Annotated[
        float,
        option("--timeout", "Seconds until a request gets 504; 10 times as long for files.", "S", min=0.1),
    ] = Limits.seconds,
    grace: Annotated[
        int, option("--grace", "Seconds to finish waiting requests after SIGTERM.", "S", min=0)
    ] = ServeOptions.grace,
    cache: Annotated[
        int,
        option("--cache", "Size of the cache of translations in bytes; 0: no cache.", "N", min=0),
    ] = ServeOptions.cache,
) -> None:
    """Serve translations over HTTP.

    The API of LibreTranslate is supported, so that its clients work, and an API under /v1 that adds terms, alignments,
    alternatives and scores. GET /docs documents both; GET / is a web page for translating.

    Each --run or --model adds its direction or directions. Missing directions are translated in two steps, via a third
    language.
    CTranslate2 is used if it is installed, and PyTorch for requests that CTranslate2 does not support.

    The server accepts only local connections unless --host names another address, such as 0.0.0.0. It does not support
    HTTPS: run it behind a proxy. With --keys F, requests need an API key; `nmt serve --keys F --new-key NAME` creates
    one, prints it once and adds its hash to F. On SIGTERM and Ctrl-C the server finishes waiting requests and exits.

    \b
    Examples:
      nmt serve
      nmt serve --run runs/multi30k-de-en --run runs/multi30k-en-de --int8
      nmt serve --keys keys.txt --new-key anna
      nmt serve --host 0.0.0.0 --keys keys.txt --rate 60
      nmt serve --allow beam=10 --allow length_penalty --set search.beam=4
    """
    if new_key is not None and keys is not None:
        from nmt.serve.admission import new_key as make_key

        show(make_key(keys, new_key))
        return
    from nmt.cli.defaults import run_or_newest
    from nmt.serve.server import start
    from nmt.share.hub import local_model

    paths = [*run, *map(local_model, model)] or [run_or_newest(None)]
    limits = Limits(max_characters, max_items, max_bytes, max_file_bytes, timeout)
    options = ServeOptions(
        paths, host=host, port=port, engine=engine, int8=int8, zero_shot=zero_shot, tm=tm,
        overrides=overrides, threads=threads, keys=keys, rate=rate, origins=origin, allow=allow,
        limits=limits, queue=queue, grace=grace, cache=cache,
    )  # fmt: skip
    start(options, say)
