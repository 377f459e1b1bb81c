package audittrail

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/sitekey"
)

// replaced returns a copy of a line that an intruder has altered.
func replaced(line []byte, old, new string) []byte {
	return bytes.Replace(bytes.Clone(line), []byte(old), []byte(new), 1)
}

// intrusions change the lines of a trail. Each is found while the appliance runs, after its next
// start, and in an export.
func intrusions() map[string]func([][]byte) [][]byte {
	return map[string]func([][]byte) [][]byte{
		"altered":        func(l [][]byte) [][]byte { l[4] = replaced(l[4], `"ana"`, `"eve"`); return l },
		"altered begin":  func(l [][]byte) [][]byte { l[1] = replaced(l[1], "update", "upgrade"); return l },
		"altered last":   func(l [][]byte) [][]byte { l[len(l)-1] = replaced(l[len(l)-1], `"kind"`, `"kinb"`); return l },
		"removed":        func(l [][]byte) [][]byte { return slices.Delete(l, 5, 6) },
		"reordered":      func(l [][]byte) [][]byte { l[5], l[6] = l[6], l[5]; return l },
		"inserted":       func(l [][]byte) [][]byte { return slices.Insert(l, 5, l[3]) },
		"not a record":   func(l [][]byte) [][]byte { l[5] = []byte("x"); return l },
		"no beginning":   func(l [][]byte) [][]byte { return l[2:] },
		"shortened":      func(l [][]byte) [][]byte { return l[:len(l)-1] },
		"shortened more": func(l [][]byte) [][]byte { return l[:len(l)-4] },
		"empty":          func([][]byte) [][]byte { return nil },
	}
}

// intrude applies an intrusion to a file.
func intrude(t testing.TB, path string, change func([][]byte) [][]byte) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := change(bytes.Split(bytes.TrimSuffix(content, []byte("\n")), []byte("\n")))
	var altered []byte
	for _, line := range lines {
		altered = append(append(altered, line...), '\n')
	}
	require.NotEqual(t, content, altered)
	require.NoError(t, os.WriteFile(path, altered, 0o600))
}

func TestVerify_findsIntrusionsWhileRunning(t *testing.T) {
	for name, change := range intrusions() {
		t.Run(name, func(t *testing.T) {
			a := newAppliance(t)
			a.run(t, func(trail *Trail) {
				changes(t, trail, 10)
				require.NoError(t, trail.Record(ana(t), Entry{Operation: "marker"}))
				intrude(t, a.files(t)[0], change)
				report, err := trail.Verify(t.Context(), Expect{})
				require.NoError(t, err)
				require.NotEmpty(t, report.Problems)
			})
		})
	}
}

func TestVerify_findsIntrusionsAfterStart(t *testing.T) {
	for name, change := range intrusions() {
		t.Run(name, func(t *testing.T) {
			a := newAppliance(t)
			a.run(t, func(trail *Trail) { changes(t, trail, 10) })
			intrude(t, a.files(t)[0], change)
			for range 2 {
				a.run(t, func(trail *Trail) {
					change := list(t, trail, Filter{Limit: 1})
					require.NotEmpty(t, change)
					report, err := trail.Verify(t.Context(), Expect{})
					require.NoError(t, err)
					require.NotEmpty(t, report.Problems)
				})
			}
		})
	}
}

func TestVerify_findsRemovedFiles(t *testing.T) {
	for name, files := range map[string][]int{"oldest": {0}, "middle": {1}, "newest": {2}, "all": {0, 1, 2}} {
		t.Run(name, func(t *testing.T) {
			a := newAppliance(t)
			for range 3 {
				a.run(t, func(trail *Trail) { changes(t, trail, 3) })
			}
			paths := a.files(t)
			for _, i := range files {
				require.NoError(t, os.Remove(paths[i]))
			}
			a.run(t, func(trail *Trail) {
				report, err := trail.Verify(t.Context(), Expect{})
				require.NoError(t, err)
				require.NotEmpty(t, report.Problems)
			})
		})
	}
}

func TestVerify_findsRemovedFilesWhileRunning(t *testing.T) {
	for name, files := range map[string][]int{"oldest": {0}, "middle": {1}, "newest": {2}, "all": {0, 1, 2}} {
		t.Run(name, func(t *testing.T) {
			a := newAppliance(t)
			for range 2 {
				a.run(t, func(trail *Trail) { changes(t, trail, 3) })
			}
			a.run(t, func(trail *Trail) {
				changes(t, trail, 3)
				require.NoError(t, trail.Record(ana(t), Entry{Operation: "marker"}))
				paths := a.files(t)
				for _, i := range files {
					require.NoError(t, os.Remove(paths[i]))
				}
				report, err := trail.Verify(t.Context(), Expect{})
				require.NoError(t, err)
				require.NotEmpty(t, report.Problems)
				report, err = a.reader().Verify(t.Context(), Expect{Heads: []Head{trail.Head()}})
				require.NoError(t, err)
				require.NotEmpty(t, report.Problems)
			})
		})
	}
}

// Records with valid hashes are a forgery if another key than the site's signed them.
func TestVerify_findsForeignKey(t *testing.T) {
	a := newAppliance(t)
	a.run(t, func(trail *Trail) { changes(t, trail, 3) })
	foreign := newAppliance(t)
	foreign.run(t, func(trail *Trail) { changes(t, trail, 3) })
	own, err := os.ReadFile(a.files(t)[0])
	require.NoError(t, err)
	forged, err := os.ReadFile(foreign.files(t)[0])
	require.NoError(t, err)
	expect := Expect{Trusted: []string{a.options.Key.Public().Fingerprint()}}
	report, err := VerifyExport(bytes.NewReader(own), expect)
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	report, err = VerifyExport(bytes.NewReader(forged), expect)
	require.NoError(t, err)
	require.Contains(t, report.Problems[0], "which is not the site's")
}

// The site's key was lost and made anew: the trail continues, and the verification asks for trust
// in the former key.
func TestVerify_formerKeyNeedsTrust(t *testing.T) {
	a := newAppliance(t)
	a.run(t, func(trail *Trail) { changes(t, trail, 3) })
	former := a.options.Key.Public().Fingerprint()
	require.NoError(t, os.Remove(filepath.Join(a.dir, sitekey.FileName)))
	key, err := sitekey.LoadOrCreate(a.dir)
	require.NoError(t, err)
	a.options.Key = key
	a.run(t, func(trail *Trail) {
		report, err := trail.Verify(t.Context(), Expect{})
		require.NoError(t, err)
		require.Len(t, report.Problems, 1)
		require.Contains(t, report.Problems[0], former)
		report, err = trail.Verify(t.Context(), Expect{Trusted: []string{former}})
		require.NoError(t, err)
		require.Empty(t, report.Problems)
	})
}

// exported returns an export of a trail with ten changes.
func exported(t testing.TB, after uint64) (content []byte, head Head, fingerprint string) {
	t.Helper()
	a := newAppliance(t)
	var file bytes.Buffer
	a.run(t, func(trail *Trail) {
		changes(t, trail, 5)
	})
	a.run(t, func(trail *Trail) {
		changes(t, trail, 5)
		require.NoError(t, trail.Record(ana(t), Entry{Operation: "marker"}))
		require.NoError(t, trail.Export(t.Context(), &file, after))
		head = trail.Head()
	})
	return file.Bytes(), head, a.options.Key.Public().Fingerprint()
}

func TestExport_isVerifiedOffline(t *testing.T) {
	content, head, fingerprint := exported(t, 0)
	report, err := VerifyExport(bytes.NewReader(content), Expect{Trusted: []string{fingerprint}, Heads: []Head{head}})
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	require.Empty(t, report.Notes)
	require.Equal(t, head, report.Last)
	require.Equal(t, []string{fingerprint}, report.Keys)

	lines := bytes.SplitAfter(content, []byte("\n"))
	short := bytes.Join(slices.Delete(slices.Clone(lines), len(lines)-3, len(lines)-2), nil)
	report, err = VerifyExport(bytes.NewReader(short), Expect{})
	require.NoError(t, err)
	require.NotEmpty(t, report.Problems)

	report, err = VerifyExport(bytes.NewReader(bytes.Join(lines[:8], nil)), Expect{Heads: []Head{head}})
	require.NoError(t, err)
	require.Contains(t, report.Problems[len(report.Problems)-1], "the end was cut off")
}

func TestExport_afterRecordContinuesEarlierExport(t *testing.T) {
	all, _, _ := exported(t, 0)
	later, _, _ := exported(t, 12)
	require.Equal(t, bytes.Count(all, []byte("\n"))-12, bytes.Count(later, []byte("\n")))
	require.Equal(t, uint64(13), sequenceOf(later))
}

func TestVerifyDir_readsCopy(t *testing.T) {
	a := newAppliance(t)
	for range 2 {
		a.run(t, func(trail *Trail) { changes(t, trail, 3) })
	}
	report, err := VerifyDir(a.options.Dir, Expect{Trusted: []string{a.options.Key.Public().Fingerprint()}})
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	require.Equal(t, 16, report.Records)
	_, err = VerifyDir(t.TempDir(), Expect{})
	require.ErrorContains(t, err, "contains no files of an audit trail")
}

// A machine that loses its power in the middle of a write leaves a part of the write, with or
// without whole records.
func TestVerify_copyAfterPowerCut(t *testing.T) {
	a := newAppliance(t)
	a.run(t, func(trail *Trail) { changes(t, trail, 3) })
	expect := Expect{Trusted: []string{a.options.Key.Public().Fingerprint()}}
	path := a.files(t)[0]
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := bytes.SplitAfter(content, []byte("\n"))
	last := lines[len(lines)-2]
	head, _, err := lastSigned(path)
	require.NoError(t, err)
	unsigned, err := encode(&Record{Sequence: head.Sequence + 1, Previous: head.Hash, Kind: Event})
	require.NoError(t, err)
	for _, rest := range [][]byte{last[:50], append(append(unsigned, '\n'), last[:50]...)} {
		torn := append(bytes.Clone(content), rest...)
		require.NoError(t, os.WriteFile(path, torn, 0o600))
		report, err := VerifyDir(a.options.Dir, expect)
		require.NoError(t, err)
		require.Empty(t, report.Problems)
		require.Equal(t, head, report.Last)
		require.Contains(t, report.Notes[0], "from a write that was not completed")

		report, err = VerifyExport(bytes.NewReader(torn), expect)
		require.NoError(t, err)
		require.Empty(t, report.Problems)
		require.Equal(t, head, report.Last)
		require.Contains(t, report.Notes[0], "the file ends within the line")
	}
}

func TestVerify_stopsWithContext(t *testing.T) {
	newAppliance(t).run(t, func(trail *Trail) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := trail.Verify(ctx, Expect{})
		require.ErrorIs(t, err, context.Canceled)
	})
}

// No byte of an exported trail can be changed without notice.
func FuzzVerifyExport_findsEachChange(f *testing.F) {
	content, head, fingerprint := exported(f, 0)
	for i := range len(content) {
		if i%97 == 0 {
			f.Add(i, content[i]^1)
			f.Add(i, byte('\n'))
			f.Add(i, byte('"'))
		}
	}
	f.Fuzz(func(t *testing.T, at int, value byte) {
		altered := bytes.Clone(content)
		at = int(uint(at) % uint(len(altered)-1)) // the last line end has no meaning
		altered[at] = value
		report, err := VerifyExport(bytes.NewReader(altered),
			Expect{Trusted: []string{fingerprint}, Heads: []Head{head}})
		require.NoError(t, err)
		require.Equal(t, bytes.Equal(content, altered), report.Intact(), "byte %d is now %q", at, value)
	})
}
