package kube

import "bytes"

// metadataOf returns the JSON of the field metadata of an object, or null without one.
func metadataOf(object []byte) []byte {
	for at := bytes.IndexByte(object, '{') + 1; at > 0 && at < len(object); {
		name := bytes.IndexByte(object[at:], '"')
		if name < 0 {
			break
		}
		name += at
		ends := valueEnd(object, name)
		colon := bytes.IndexByte(object[ends:], ':')
		if colon < 0 {
			break
		}
		value := ends + colon + 1
		if at = valueEnd(object, value); string(object[name:ends]) == `"metadata"` {
			return object[value:at]
		}
	}
	return []byte("null")
}

// valueEnd returns the position after a value in JSON that this program stored, so that it is
// valid.
func valueEnd(text []byte, at int) int {
	for depth := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			at = quoteEnd(text, at)
			if depth == 0 {
				return at + 1
			}
		case '{', '[':
			depth++
		case '}', ']', ',':
			if depth == 0 {
				return at // after a number or a word
			}
			if text[at] == ',' {
				continue
			}
			if depth--; depth == 0 {
				return at + 1
			}
		}
	}
	return len(text)
}

// quoteEnd returns the position of the quote that ends a string.
func quoteEnd(text []byte, at int) int {
	for at++; at < len(text); at++ {
		next := bytes.IndexByte(text[at:], '"')
		if next < 0 {
			break
		}
		escapes := 0
		for at += next; text[at-1-escapes] == '\\'; {
			escapes++
		}
		if escapes%2 == 0 {
			return at
		}
	}
	return len(text)
}
