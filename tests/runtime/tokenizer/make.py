#!/usr/bin/env python3
"""make.py - trains small tokenizers on text.txt and writes, for each, its tokenizer.json and NAME.ids: a line for each of the cases, with
the text in hexadecimal, a tab, its ids, a tab, and what they decode to in hexadecimal, = for the text; by the `tokenizers` library.
It takes added tokens for byte-level text when it decodes: a ? stands where that makes U+FFFD of a text that had none.
`pip install tokenizers==0.23.3`, then run it without arguments; what it writes is committed."""
import json
import os
import random
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
TEXT = open(os.path.join(HERE, 'text.txt'), encoding='utf-8').read()
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace('{1,3}', '')
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BYTES = dict(add_prefix_space=False, use_regex=False)


def split(pattern, how='isolated'):
    return pre_tokenizers.Split(Regex(pattern), how)


def byte_level(size, pre, special, normalizer=None, template=None, added=(), **model):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    if normalizer:
        t.normalizer = normalizer
    t.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False,
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_tokens(list(added))
    if template:
        t.post_processor = processors.TemplateProcessing(single=template + ' $A', special_tokens=[(template, t.token_to_id(template))])
    made = json.loads(t.to_str())
    made['model'].update(model)
    return made


def characters(size, decoder, pre=None, normalizer=None):
    """Like Llama-2's: blanks are U+2581, characters that are no tokens become tokens of bytes."""
    t = Tokenizer(models.BPE(unk_token='<unk>', fuse_unk=True, byte_fallback=True))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme='never', split=True)
    t.decoder = decoder
    special = ['<unk>', '<s>', '</s>']
    t.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=size, special_tokens=special + [f'<0x{i:02X}>' for i in range(256)],
                                                      limit_alphabet=80, show_progress=False))
    made = json.loads(t.to_str())
    made['pre_tokenizer'] = json.loads(pre.__getstate__()) if pre else None
    made['added_tokens'] = [a for a in made['added_tokens'] if a['content'] in special]
    return made


def lines_of_merges(made):
    made['model']['merges'] = [' '.join(m) for m in made['model']['merges']]
    return made


def tokenizers():
    blank = decoders.Replace('\u2581', ' ')
    gpt2 = byte_level(420, pre_tokenizers.ByteLevel(add_prefix_space=False), ['<|endoftext|>'])
    yield 'gpt2', lines_of_merges(gpt2)
    yield 'llama3', byte_level(430, pre_tokenizers.Sequence([split(LLAMA3), pre_tokenizers.ByteLevel(**BYTES)]),
                               ['<|begin_of_text|>', '<|end_of_text|>'], template='<|begin_of_text|>', ignore_merges=True)
    yield 'qwen2', byte_level(420, pre_tokenizers.Sequence([split(QWEN2), pre_tokenizers.ByteLevel(**BYTES)]),
                              ['<|endoftext|>', '<|im_start|>', '<|im_end|>'], normalizers.NFC(), added=['<tool>', 'Noe\u0308l'])
    yield 'o200k', byte_level(420, pre_tokenizers.Sequence([split(O200K), pre_tokenizers.ByteLevel(**BYTES)]), ['<|endoftext|>'])
    yield 'steps', byte_level(
        420, pre_tokenizers.Sequence([split(r'[\r\n]', 'contiguous'), split(r'\s?\p{P}+', 'merged_with_previous'),
                                      pre_tokenizers.Split(' ', 'merged_with_next'), pre_tokenizers.Digits(individual_digits=True),
                                      split('[一-龥\u3040-ヿ]+'), pre_tokenizers.ByteLevel(add_prefix_space=True)]),
        ['<|endoftext|>'], normalizers.NFD(),
        added=[AddedToken('<mask>', lstrip=True, special=True), AddedToken('[wide]', rstrip=True), AddedToken('[wid', normalized=False)])
    yield 'llama2', characters(560, decoders.Sequence([blank, decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(' ', 1, 0)]),
                               normalizer=normalizers.Sequence([normalizers.Prepend('\u2581'), normalizers.Replace(' ', '\u2581')]))
    yield 'metaspace', characters(560, decoders.Metaspace(prepend_scheme='first'), pre=pre_tokenizers.Metaspace(prepend_scheme='first', split=False))
    yield 'gemma', characters(560, decoders.Sequence([blank, decoders.ByteFallback(), decoders.Fuse()]),
                              pre=pre_tokenizers.Split(' ', 'merged_with_previous'), normalizer=normalizers.Replace(' ', '\u2581'))


def cases():
    draw = random.Random(1)
    yield TEXT
    yield from TEXT.split('\n')
    yield from ['', ' ', '  ', '\n', ' \n ', '\r\n\r\n x', 'a', ' a', "a'S 'ſ 'LL'll 'K", '\t\tx', 'x' * 100, ' ' * 70,
                'ab' * 60, 'é' * 80, '\u2581a \u2581', 'Ａ', '\u1e9b\u0323', '각각', '\x00\x01\x7f', '\u00a0 \u3000x', '1' * 50,
                '<|endoftext|>', 'a<|endoftext|>b', ' <|endoftext|> <|endoftext|>', '<|endoftext', '<|im_start|>user\nhi<|im_end|>\n',
                '<|begin_of_text|>x<|end_of_text|>', '<s>a</s>', 'a <s> b', '<unk>', '<0x41>', 'x <mask> y', 'x  <mask>  y<mask>', 'a [wide]  b', 'a [wid]',
                'Noël Noe\u0308l Noel', '<tool>']
    ranges = [(32, 127), (0xa0, 0x250), (0x300, 0x370), (0x370, 0x600), (0x900, 0xe80), (0x1100, 0x1200), (0x1e00, 0x2100), (0x3040, 0x3100),
              (0x4e00, 0x9fff), (0xac00, 0xd7a4), (0x1f300, 0x1fb00), (1, 0xd800), (0xe000, 0x110000)]
    for _ in range(40):
        yield ''.join(chr(draw.randrange(*draw.choice(ranges))) if draw.random() > 0.3 else draw.choice(' \n\'"tsTS09.')
                      for _ in range(draw.randrange(1, 30)))


def main():
    for name, made in tokenizers():
        with open(os.path.join(HERE, name + '.json'), 'w', encoding='utf-8') as f:
            json.dump(made, f, ensure_ascii=False, separators=(',', ':'))
        t = Tokenizer.from_file(os.path.join(HERE, name + '.json'))
        with open(os.path.join(HERE, name + '.ids'), 'w') as f:
            for text in cases():
                ids = t.encode(text, add_special_tokens=False).ids
                decoded = t.decode(ids, skip_special_tokens=False)
                if '\ufffd' in decoded and '\ufffd' not in text:
                    decoded = None
                shown = '?' if decoded is None else '=' if decoded == text else decoded.encode().hex()
                f.write(f"{text.encode().hex()}\t{' '.join(map(str, ids))}\t{shown}\n")
        if name == 'gpt2':  # the same as OpenAI's pair of files
            with open(os.path.join(HERE, 'encoder.json'), 'w') as f:
                json.dump(made['model']['vocab'], f)
            with open(os.path.join(HERE, 'vocab.bpe'), 'w', encoding='utf-8') as f:
                f.write('#version: 0.2\n' + ''.join(m + '\n' for m in made['model']['merges']))


main()
