package delta_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/store/delta"
)

const limit = 1 << 20

func TestApply(t *testing.T) {
	row := ""
	for i := range 60 {
		row += fmt.Sprintf(`{"name":"node-%d","status":"known"},`, i)
	}
	var encoder delta.Encoder
	for name, c := range map[string]struct {
		base, target string
		most         int // maximum size of the delta in bytes
	}{
		"empty from empty": {"", "", 1},
		"empty from a row": {row, "", 1},
		"text from empty":  {"", "abc", 5},
		"equal":            {row, row, 8},
		"one word changed": {row, strings.Replace(row, "known", "installing", 1), 40},
		"words changed far apart": {row, "x" + strings.Replace(strings.Replace(row, "node-7", "me", 1), "node-40",
			"another", 1) + "y", 60},
		"shortened":                 {row, row[100:1200], 24},
		"prefix added":              {row, "prefix" + row, 20},
		"halves swapped":            {row + strings.ToUpper(row), strings.ToUpper(row) + row, 64},
		"nothing in common":         {strings.Repeat("a", 500), strings.Repeat("b", 500), 510},
		"overlap of head and tail":  {"aaaa", "aaaaaaaa", 16},
		"shorter than the overlaps": {"aaaaaaaa", "aaaa", 8},
	} {
		t.Run(name, func(t *testing.T) {
			made := encoder.Append([]byte("before"), []byte(c.base), []byte(c.target))
			require.Equal(t, "before", string(made[:6]))
			require.LessOrEqual(t, len(made)-6, c.most)
			got, err := delta.Apply([]byte(c.base), made[6:], limit)
			require.NoError(t, err)
			require.Equal(t, c.target, string(got))
		})
	}
}

func TestAppend_sizeOfChangedRow(t *testing.T) {
	type row struct {
		CheckedIn, Status, StatusInfo, Unchanged, Updated string
		Number                                            int
	}
	text := func(at, status, info string, number int) []byte {
		made, err := json.Marshal(row{at, status, info, strings.Repeat("an unchanged part. ", 100), at, number})
		require.NoError(t, err)
		return made
	}
	var encoder delta.Encoder
	before, after := text("12:00:00.123456", "insufficient", "Host is too small", 1),
		text("12:01:00.654321", "known", "Host is ready", 2)
	require.Less(t, len(encoder.Append(nil, after, before)), 120)
}

func TestApply_damagedDelta(t *testing.T) {
	base, target := []byte(strings.Repeat("0123456789", 50)), []byte(strings.Repeat("0123456789", 49)+"x")
	made := new(delta.Encoder).Append(nil, base, target)
	for name, c := range map[string]struct {
		base, delta []byte
		limit       int
	}{
		"no delta":          {base, nil, limit},
		"cut off":           {base, made[:len(made)-1], limit},
		"a shorter base":    {base[:100], made, limit},
		"too large":         {base, made, len(target) - 1},
		"a piece too much":  {base, append(bytes.Clone(made), 2, 'y'), limit},
		"copied from ahead": {base, []byte{4, 9, 0xfe, 0xff, 0xff, 0xff, 0x0f}, limit},
		"a huge length":     {base, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, limit},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := delta.Apply(c.base, c.delta, c.limit)
			require.ErrorIs(t, err, delta.ErrDamaged)
		})
	}
}

func TestApply_randomEdits(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var encoder delta.Encoder
	value := []byte(`{}`)
	for round := range 4000 {
		next := bytes.Clone(value)
		for range 1 + random.IntN(4) {
			at := random.IntN(len(next) + 1)
			switch cut := random.IntN(len(next) - at + 1); random.IntN(3) {
			case 0:
				next = append(next[:at:at], append(fmt.Appendf(nil, `"key-%d":"value of %d",`, random.IntN(100), round),
					next[at:]...)...)
			case 1:
				next = append(next[:at:at], next[at+cut/4:]...)
			default:
				next = append(next[:at:at], bytes.ToUpper(next[at:])...)
			}
		}
		next = next[:min(len(next), 40_000)]
		got, err := delta.Apply(value, encoder.Append(nil, value, next), limit)
		require.NoError(t, err)
		require.True(t, bytes.Equal(next, got), round)
		value = next
	}
}

func FuzzApply(f *testing.F) {
	base := []byte(strings.Repeat("0123456789", 20))
	f.Add(new(delta.Encoder).Append(nil, base, base[3:60]))
	f.Fuzz(func(t *testing.T, made []byte) {
		got, err := delta.Apply(base, made, 1000)
		if err == nil && len(got) > 1000 {
			t.Fatal("longer than the limit")
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	row := []byte(strings.Repeat(`{"name":"node-1","status":"known","status_info":"Host is ready to be installed"},`,
		40))
	other := append([]byte("x"), bytes.Replace(row, []byte("known"), []byte("installing"), 3)...)
	var encoder delta.Encoder
	var dst []byte
	b.SetBytes(int64(len(row)))
	for b.Loop() {
		dst = encoder.Append(dst[:0], row, append(other, 'y'))
	}
}
