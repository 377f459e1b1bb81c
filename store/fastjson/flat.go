package fastjson

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
	"unsafe"
)

// Flat reads an object that has nothing but texts and whole numbers in it, in one pass, and calls member with the name and value of
// each: a text without its quotes and escapes, or a number as it stands there. It is for what agents send most, an object with another
// one as a text in it, whose many escapes take the decoder longer than all else. It reports false for any other text, valid or
// not, and when member does: what was read is worth nothing then, and Unmarshal is to be asked.
func Flat(text []byte, member func(name, value string, quoted bool) bool) bool {
	f := flat{text: text}
	if !f.next('{') {
		return false
	}
	for {
		name, ok := f.quoted()
		if !ok || !f.next(':') {
			return false
		}
		value, quoted := f.quoted()
		if !quoted {
			value, ok = f.number()
		}
		if !ok || !member(name, value, quoted) {
			return false
		}
		if !f.next(',') {
			return f.next('}') && f.space() == len(text)
		}
	}
}

type flat struct {
	text []byte
	at   int
}

// space skips white space and returns where it ends.
func (f *flat) space() int {
	for f.at < len(f.text) && (f.text[f.at] == ' ' || f.text[f.at] == '\n' || f.text[f.at] == '\t' || f.text[f.at] == '\r') {
		f.at++
	}
	return f.at
}

// next takes a character if it is the one that comes next.
func (f *flat) next(c byte) bool {
	if at := f.space(); at == len(f.text) || f.text[at] != c {
		return false
	}
	f.at++
	return true
}

// number takes a whole number of up to 18 digits, which an int64 always holds.
func (f *flat) number() (string, bool) {
	start := f.space()
	if f.at < len(f.text) && f.text[f.at] == '-' {
		f.at++
	}
	digits := f.at
	for f.at < len(f.text) && '0' <= f.text[f.at] && f.text[f.at] <= '9' {
		f.at++
	}
	n := f.at - digits
	return string(f.text[start:f.at]), 0 < n && n <= 18 && (n == 1 || f.text[digits] != '0')
}

// quoted takes a text.
func (f *flat) quoted() (string, bool) {
	if !f.next('"') {
		return "", false
	}
	start := f.at
	f.at = plain(f.text, f.at)
	if f.at < len(f.text) && f.text[f.at] == '"' {
		f.at++
		return string(f.text[start : f.at-1]), true
	}
	read := append(make([]byte, 0, len(f.text)-start), f.text[start:f.at]...)
	for f.at < len(f.text) {
		c := f.text[f.at]
		switch {
		case c == '"':
			f.at++
			return unsafe.String(unsafe.SliceData(read), len(read)), true // nobody else has it
		case c == '\\':
			var ok bool
			if read, ok = f.escape(read); !ok {
				return "", false
			}
		case c < ' ':
			return "", false
		default:
			_, size := utf8.DecodeRune(f.text[f.at:])
			if size == 1 { // it is no UTF-8
				return "", false
			}
			read = append(read, f.text[f.at:f.at+size]...)
			f.at += size
		}
		start := f.at
		f.at = plain(f.text, f.at)
		read = append(read, f.text[start:f.at]...)
	}
	return "", false
}

// escape appends what an escape stands for. Halves of characters are left to the decoder.
func (f *flat) escape(read []byte) ([]byte, bool) {
	if f.at+1 == len(f.text) {
		return nil, false
	}
	c := f.text[f.at+1]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return f.unicode(read)
	default:
		return nil, false
	}
	f.at += 2
	return append(read, c), true
}

func (f *flat) unicode(read []byte) ([]byte, bool) {
	if f.at+6 > len(f.text) {
		return nil, false
	}
	var r rune
	for _, c := range f.text[f.at+2 : f.at+6] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return nil, false
		}
	}
	f.at += 6
	return utf8.AppendRune(read, r), utf8.ValidRune(r)
}

// plain finds the first byte from there on that is no ASCII character which stands for itself in a text, eight at a time.
func plain(text []byte, at int) int {
	const each = 0x0101010101010101
	for ; at+8 <= len(text); at += 8 {
		word := binary.LittleEndian.Uint64(text[at:])
		quote, escape := word^'"'*each, word^'\\'*each
		// The lowest bit that is set is right; higher ones may be borrowed.
		special := (quote-each)&^quote | (escape-each)&^escape | (word-' '*each)&^word | word
		if special &= 0x80 * each; special != 0 {
			return at + bits.TrailingZeros64(special)/8
		}
	}
	for at < len(text) && text[at] != '"' && text[at] != '\\' && text[at] >= ' ' && text[at] < utf8.RuneSelf {
		at++
	}
	return at
}
