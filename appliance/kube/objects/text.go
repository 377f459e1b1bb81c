package objects

import (
	"bytes"
	"iter"
)

// The functions of this file read parts of an object's JSON without decoding the rest. The text is
// valid JSON, because only valid JSON is stored.

// member is a member of a JSON object.
type member struct {
	name  string // as in the text, without the quotes
	value []byte
}

// eachMember returns the members of a JSON object: their names, as in the text and without the
// quotes, and their values. There are none in any other value.
func eachMember(text []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		if !isObject(text) {
			return
		}
		at := skipSpace(text, 0)
		for at = skipSpace(text, at+1); at < len(text) && text[at] == '"'; at = skipSpace(text, at+1) {
			end := skipString(text, at)
			name := text[at+1 : end-1]
			at = skipSpace(text, skipSpace(text, end)+1) // after the colon
			end = skipValue(text, at)
			if !yield(name, text[at:end]) {
				return
			}
			if at = skipSpace(text, end); at >= len(text) || text[at] != ',' {
				return
			}
		}
	}
}

func isObject(text []byte) bool {
	at := skipSpace(text, 0)
	return at < len(text) && text[at] == '{'
}

// members returns the members of a JSON object. It returns nil for any other value.
func members(text []byte) []member {
	if !isObject(text) {
		return nil
	}
	list := make([]member, 0, 8)
	for name, value := range eachMember(text) {
		list = append(list, member{string(name), value})
	}
	return list
}

// elements returns the elements of a JSON array. It returns nil for any other value.
func elements(text []byte) (list [][]byte) {
	at := skipSpace(text, 0)
	if at >= len(text) || text[at] != '[' {
		return nil
	}
	for at = skipSpace(text, at+1); at < len(text) && text[at] != ']'; at = skipSpace(text, at+1) {
		end := skipValue(text, at)
		list = append(list, text[at:end])
		if at = skipSpace(text, end); at >= len(text) || text[at] != ',' {
			break
		}
	}
	return list
}

// field returns the value of a nested member, or nil. It does not read what follows the member.
func field(text []byte, path ...string) []byte {
	for _, name := range path {
		text = memberNamed(text, name)
	}
	return text
}

func memberNamed(text []byte, name string) []byte {
	for found, value := range eachMember(text) {
		if string(found) == name {
			return value
		}
	}
	return nil
}

func memberOf(list []member, name string) []byte {
	for _, m := range list {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

func skipSpace(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r') {
		at++
	}
	return at
}

// skipString returns the position after the string that begins at a position.
func skipString(text []byte, at int) int {
	for end := at + 1; ; end++ {
		length := bytes.IndexByte(text[end:], '"')
		if length < 0 {
			return len(text)
		}
		end += length
		escapes := 0
		for text[end-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return end + 1
		}
	}
}

// skipValue returns the position after the value that begins at a position.
func skipValue(text []byte, at int) int {
	depth := 0
	for at < len(text) {
		switch text[at] {
		case '"':
			if at = skipString(text, at); depth == 0 {
				return at
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return at // after a number or a word
			}
			if depth--; depth == 0 {
				return at + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return at
			}
		}
		at++
	}
	return at
}
