"""The articles that are held out."""

from tfbio.base.held_out import is_held_out


def test_the_held_out_part_is_a_fixed_share():
    ids = [f"pmid:{n}" for n in range(20_000)]
    held_out = {i for i in ids if is_held_out(i, 0.05)}
    assert 0.045 < len(held_out) / len(ids) < 0.055
    assert held_out < {i for i in ids if is_held_out(i, 0.1)}
    assert not any(is_held_out(i, 0.0) for i in ids)
    # Recorded: a change would let models be tested on text that they were pretrained on.
    assert sorted(held_out)[:3] == ["pmid:10018", "pmid:10044", "pmid:10049"]
