def without_boilerplate(text):
    return text
