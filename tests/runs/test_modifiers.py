"""Training with modifiers: messages, log records and token counts."""

from __future__ import annotations

import pytest
import torch

from fitting import fit
from nmt.errors import DataError
from nmt.layout import RunDir
from nmt.runs.info import read_info
from nmt.training.loop import accumulate_gradients, train_step
from nmt.training.parallel import World
from tiny_corpus import tiny_settings, tiny_text
from trained import first_update, records, session_of

RATES = {"upper_case": 0.4, "typos": 0.4, "noise": 0.1}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    tiny_text(folder)
    return folder


@pytest.fixture
def glossary(text, tmp_path):
    words = {word for line in (text / "train.aa").read_text(encoding="utf-8").split("\n") for word in line.split()}
    path = tmp_path / "g.tsv"
    path.write_text("".join(f"{word}\t{word[::-1]}\n" for word in sorted(words)), encoding="utf-8")
    return path


def test_modifiers_are_printed_and_logged_with_examples(tiny_data, text, glossary, tmp_path, capsys):
    modifiers = {"upper_case": 0.25, "drop_end_punctuation": 0.125, "terms": 0.5}
    training = {"modifiers": modifiers, "glossary": str(glossary)}
    config = tiny_settings(text, training={**training, "max_steps": 2})
    fit(config, tiny_data, tmp_path / "run")
    err = capsys.readouterr().err
    assert "warning: training.modifiers.drop_end_punctuation has no effect on any of 199 sampled pairs\n" in err
    upper, terms = records(tmp_path / "run", "modifier")
    assert upper == {"kind": "modifier", "step": 0, "modifier": "upper_case", "src": upper["tgt"][::-1],
                     "tgt": upper["src"][::-1]} and upper["src"].isupper()  # fmt: skip
    assert "<reserved_0>" in terms["src"] and "<reserved_" not in terms["tgt"]
    # the same terms are needed to go on
    more = tiny_settings(text, training={**training, "max_steps": 3})
    assert read_info(RunDir(tmp_path / "run")).glossary is not None
    fit(more, tiny_data, tmp_path / "run", resume=True)
    assert len(records(tmp_path / "run", "modifier")) == 2
    with glossary.open("a", encoding="utf-8") as file:
        file.write("more\tterms\n")
    with pytest.raises(DataError, match=r"g\.tsv: the terms have changed since .*run was started"):
        fit(more, tiny_data, tmp_path / "run", resume=True)


def test_token_counts_include_modified_pairs(tiny_data, text, tmp_path):
    session = session_of(tiny_data, text, tmp_path / "run", modifiers=RATES)
    update = first_update(session)
    n_epoch_tokens = session.n_epoch_tokens
    loaded = session.changed_update(update)
    assert len(loaded.rows) == len(update.rows)
    batch = session.pairs.batch(loaded.rows)
    assert loaded.n_tokens == batch.n_tokens == int((batch.tgt_out != 0).sum()) != update.n_tokens
    for part in session.batches.split(loaded.rows, 200):
        assert len(part) == 1 or session.pairs.lengths.larger_side(part) <= 200
    outcome = train_step(session, update)
    assert outcome.update.n_tokens == loaded.n_tokens and outcome.update.rows.tolist() == update.rows.tolist()
    assert outcome.n_tokens == loaded.n_tokens + int((batch.src != 0).sum())
    # the remaining updates are estimated from the tokens that epochs are planned by
    assert session.state.n_tokens == update.n_tokens and session.n_epoch_tokens == n_epoch_tokens
    assert float(outcome.stats.n_slots) >= outcome.n_tokens


def test_ranks_share_modified_pairs(tiny_data, text, tmp_path):
    whole = session_of(tiny_data, text, tmp_path / "run", modifiers=RATES)
    update = whole.changed_update(first_update(whole))
    wanted = accumulate_gradients(whole, update)
    gradients = [parameter.grad.clone() for parameter in whole.model.parameters()]
    sums = []
    for rank in (0, 1):
        session = session_of(tiny_data, text, tmp_path / f"run{rank}", modifiers=RATES)
        of_rank = session.changed_update(first_update(session))
        assert of_rank.n_tokens == update.n_tokens
        session.world = World(rank, 2)
        sums.append((accumulate_gradients(session, of_rank), [p.grad.clone() for p in session.model.parameters()]))
    torch.testing.assert_close(sums[0][0].nll + sums[1][0].nll, wanted.nll, rtol=1e-5, atol=0)
    for one, other, both in zip(sums[0][1], sums[1][1], gradients, strict=True):
        mean = (one + other) / 2  # as DistributedDataParallel has it
        torch.testing.assert_close(mean, both, rtol=1e-3, atol=1e-6)
