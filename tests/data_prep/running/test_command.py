def test_a_misspelt_flag_costs_nothing(command, fails_in_one_sentence, pubmed_slice, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "manifest.json").write_text("{}")
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    flags = [f"--input={pubmed_slice}", f"--output={tmp_path}/out", "--min_word=9"]
    for overwrite in ([], ["--overwrite"]):
        said = fails_in_one_sentence(command("documents", *flags, *overwrite))
        assert "did you mean --min_words?" in said
    elsewhere = ["--runner=FlinkRunner", "--workers=4"]
    said = fails_in_one_sentence(command("documents", *flags[:2], *elsewhere))
    assert "--workers is for --runner=local" in said
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
