// Package checksum writes small files with a checksum of themselves: JSON objects and lists of
// contents. Files of earlier programs have none and are read without it.
//
// A single damaged bit makes each file unreadable, also one in the checksum itself. Earlier
// programs read the files too: the checksum is a member that they do not know, or a line that names
// no content.
package checksum

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// ErrMismatch reports that a file differs from what was written.
var ErrMismatch = errors.New("it does not fit its checksum")

// member is the end of a JSON object with a checksum of all before it.
var member = regexp.MustCompile(`,"checksum":"([0-9a-f]{64})"}\n?$`)

// Marshal returns a value as a JSON object that ends with its checksum.
func Marshal(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	content, ok := bytes.CutSuffix(text, []byte("}"))
	if !ok || len(content) < 2 {
		return nil, fmt.Errorf("a checksum needs a JSON object with members, and %T is none", value)
	}
	return fmt.Appendf(content, ",\"checksum\":%q}\n", sum(content)), nil
}

// Unmarshal reads what Marshal wrote, or a JSON object without a checksum.
func Unmarshal(text []byte, to any) error {
	if found := member.FindSubmatchIndex(text); found != nil {
		if string(text[found[2]:found[3]]) != sum(text[:found[0]]) {
			return ErrMismatch
		}
		return json.Unmarshal(text, to)
	}
	// A damaged checksum is a member with an unknown name, or one with a wrong value.
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(to); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows its end")
	}
	return nil
}

// listPrefix is the beginning of the first line of a list.
const listPrefix = "sha256 "

// List returns a list of the names of contents, which are SHA-256 in hex, one a line. Its first
// line is a checksum of the others, so that a list that was cut is not taken for one without it.
func List(names []string) []byte {
	content := []byte(strings.Join(names, "\n") + "\n")
	return append([]byte(listPrefix+sum(content)+"\n"), content...)
}

// ReadList reads what List wrote, or a list without a checksum.
func ReadList(text []byte) (names []string, err error) {
	if first, rest, ok := bytes.Cut(text, []byte("\n")); ok && bytes.HasPrefix(first, []byte(listPrefix)) {
		if string(first) != listPrefix+sum(rest) {
			return nil, ErrMismatch
		}
		text = rest
	}
	if !bytes.HasSuffix(text, []byte("\n")) {
		return nil, errors.New("its end is missing")
	}
	for line := range bytes.Lines(text) {
		name := strings.TrimSuffix(string(line), "\n")
		if name == "" { // of an empty list
			continue
		}
		if !ValidSum(name) {
			return nil, fmt.Errorf("%q is no name of a content", name)
		}
		names = append(names, name)
	}
	return names, nil
}

// ValidSum reports whether a text is the SHA-256 of a content in hex.
func ValidSum(text string) bool {
	decoded, err := hex.DecodeString(text)
	return err == nil && len(decoded) == sha256.Size && strings.ToLower(text) == text
}

func sum(content []byte) string {
	hash := sha256.Sum256(content)
	return hex.EncodeToString(hash[:])
}
