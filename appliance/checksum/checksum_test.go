package checksum_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/checksum"
)

type inner struct {
	Name string `json:"name"`
}

type object struct {
	Number int     `json:"number"`
	Parts  []inner `json:"parts"`
}

var example = object{7, []inner{{"data.key"}, {"site.key"}}}

// eachFlip calls read with every damage of one bit.
func eachFlip(text []byte, read func(damaged []byte, name string)) {
	for at := range text {
		for bit := range 8 {
			damaged := bytes.Clone(text)
			damaged[at] ^= 1 << bit
			read(damaged, fmt.Sprintf("bit %d of byte %d: %s", bit, at, damaged))
		}
	}
}

func TestUnmarshal_everyFlippedBitIsRefused(t *testing.T) {
	text, err := checksum.Marshal(example)
	require.NoError(t, err)
	var read object
	require.NoError(t, checksum.Unmarshal(text, &read))
	require.Equal(t, example, read)
	eachFlip(text, func(damaged []byte, name string) {
		require.Error(t, checksum.Unmarshal(damaged, new(object)), name)
	})
	for length := range len(text) - 1 { // the end of the line may be missing
		require.Error(t, checksum.Unmarshal(text[:length], new(object)), length)
	}
	require.Error(t, checksum.Unmarshal(append(bytes.Clone(text), text...), new(object)))
}

func TestUnmarshal_earlierAndLaterPrograms(t *testing.T) {
	text, err := json.Marshal(example)
	require.NoError(t, err)
	for _, end := range []string{"", "\n"} {
		var read object
		require.NoError(t, checksum.Unmarshal(append(bytes.Clone(text), end...), &read))
		require.Equal(t, example, read)
	}
	later, err := checksum.Marshal(struct {
		object
		New string `json:"new"`
	}{example, "unknown"})
	require.NoError(t, err)
	var read object
	require.NoError(t, checksum.Unmarshal(later, &read))
	require.NoError(t, json.Unmarshal(later, &read), "an earlier program reads it")
	require.Equal(t, example, read)
}

func TestMarshal_onlyObjects(t *testing.T) {
	for _, value := range []any{nil, 1, []int{1}, struct{}{}} {
		_, err := checksum.Marshal(value)
		require.ErrorContains(t, err, "JSON object")
	}
}

func TestReadList_everyFlippedBitIsRefused(t *testing.T) {
	names := []string{strings.Repeat("0a", 32), strings.Repeat("1b", 32)}
	for _, names := range [][]string{names, nil} {
		text := checksum.List(names)
		read, err := checksum.ReadList(text)
		require.NoError(t, err)
		require.Equal(t, names, read)
		eachFlip(text, func(damaged []byte, name string) {
			_, err := checksum.ReadList(damaged)
			require.Error(t, err, name)
		})
		for length := range text {
			_, err := checksum.ReadList(text[:length])
			require.Error(t, err, length)
		}
	}
	read, err := checksum.ReadList([]byte(strings.Join(names, "\n") + "\n"))
	require.NoError(t, err, "of an earlier program")
	require.Equal(t, names, read)
}
