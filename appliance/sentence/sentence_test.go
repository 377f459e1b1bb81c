package sentence_test

import (
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"landfall/appliance/sentence"
)

func TestNew(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"nil":                {nil, ""},
		"empty text":         {errors.New(""), ""},
		"blank text":         {errors.New(" \n "), ""},
		"a clause":           {errors.New("the disk is full"), "The disk is full."},
		"a sentence already": {errors.New("The disk is full."), "The disk is full."},
		"not ASCII":          {errors.New("änderung"), "Änderung."},
		"invalid UTF-8":      {errors.New("\xff"), "\xff."},
		"a file's name":      {errors.New("rules.yaml: is not YAML"), "rules.yaml: is not YAML."},
		"a path":             {errors.New("/etc/hosts is empty"), "/etc/hosts is empty."},
		"a host's name":      {errors.New("host-1 is off"), "host-1 is off."},
		"a contraction":      {errors.New("can't be read"), "Can't be read."},
		"a word and a colon": {errors.New("mirror: no answer"), "Mirror: no answer."},
		"joined errors":      {errors.Join(errors.New("first"), errors.New("second")), "First; second."},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, sentence.New(test.err)) })
	}
}

func TestCount(t *testing.T) {
	require.Equal(t, "0 hosts", sentence.Count(0, "host"))
	require.Equal(t, "1 host", sentence.Count(1, "host"))
	require.Equal(t, "2 hosts", sentence.Count(2, "host"))
}

func TestShorten(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"short":                      {"abc", 3, "abc"},
		"empty":                      {"", 0, ""},
		"at a character boundary":    {"abcd", 3, "abc…"},
		"inside a character":         {"aää", 2, "a…"},
		"inside the first character": {"ä", 1, "…"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, sentence.Shorten(test.text, test.limit)) })
	}
}

func TestPrintable(t *testing.T) {
	require.Equal(t, `ä \x1b[31m \r \x7f \u009b \u202e`, sentence.Printable("ä \x1b[31m \r \x7f \u009b \u202e"))
	require.Equal(t, "a\nb\tc\u00a0\u200d", sentence.Printable("a\nb\tc\u00a0\u200d"))
}

func FuzzNew(f *testing.F) {
	f.Add("the disk is full")
	f.Fuzz(func(t *testing.T, text string) {
		made := sentence.New(errors.New(text))
		require.NotContains(t, made, "\n")
		if utf8.ValidString(text) {
			require.True(t, utf8.ValidString(made))
		}
	})
}
