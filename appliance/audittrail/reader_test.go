package audittrail

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// withoutHead returns the records of an export. The signed head after them contains the time.
func withoutHead(export string) string {
	records, _, _ := strings.Cut(export, string(headMark))
	return records
}

// reader returns a reader of the trail's files.
func (a *appliance) reader() Reader {
	return Reader{Dir: a.options.Dir, Key: a.options.Key, Clock: a.clock}
}

// requireIntact checks that a reader finds no problem, and that its export is intact, too.
func (r Reader) requireIntact(t *testing.T, heads ...Head) *Report {
	t.Helper()
	report, err := r.Verify(t.Context(), Expect{Heads: heads})
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	var exported bytes.Buffer
	require.NoError(t, r.Export(t.Context(), &exported, 0))
	checked, err := VerifyExport(&exported, Expect{Heads: heads, Trusted: []string{r.Key.Public().Fingerprint()}})
	require.NoError(t, err)
	require.Empty(t, checked.Problems)
	return report
}

func TestReader_answersLikeTheTrail(t *testing.T) {
	a := newAppliance(t)
	r := a.reader()
	require.Zero(t, r.requireIntact(t).Records, "a member that never led has no directory")
	for range 2 {
		a.run(t, func(trail *Trail) {
			changes(t, trail, 5)
			for _, filter := range []Filter{{}, {Limit: 3}, {Before: 9}, {Cluster: "c2"}, {Person: "nobody"}} {
				want, err := trail.List(t.Context(), filter)
				require.NoError(t, err)
				got, err := r.List(t.Context(), filter)
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
			for _, after := range []uint64{0, 4, trail.Head().Sequence} {
				var want, got bytes.Buffer
				require.NoError(t, trail.Export(t.Context(), &want, after))
				require.NoError(t, r.Export(t.Context(), &got, after))
				require.Equal(t, withoutHead(want.String()), withoutHead(got.String()))
			}
			require.Equal(t, trail.Head(), r.requireIntact(t, trail.Head()).Last)
		})
	}
}

func TestReader_operationWithoutEndIsUnknown(t *testing.T) {
	a := newAppliance(t)
	a.run(t, func(trail *Trail) {
		_, err := trail.Begin(ana(t), Entry{Operation: "install"})
		require.NoError(t, err)
	})
	listed, err := a.reader().List(t.Context(), Filter{Operation: "install"})
	require.NoError(t, err)
	require.Equal(t, Unknown, listed.Items[0].Outcome, "its appliance does not run")
}

// The files grow, begin and are removed while a reader reads them.
func TestReader_besideAWriter(t *testing.T) {
	a := newAppliance(t)
	a.options.Bytes = 4 * minFile
	r := a.reader()
	a.run(t, func(trail *Trail) {
		written := make(chan struct{})
		var writing sync.WaitGroup
		writing.Go(func() {
			defer close(written)
			changes(t, trail, 1500)
		})
		for ended := false; !ended; {
			select {
			case <-written:
				ended = true
			default:
			}
			report, err := r.Verify(t.Context(), Expect{})
			require.NoError(t, err)
			require.Empty(t, report.Problems)
			items, err := r.List(t.Context(), Filter{Limit: 10})
			require.NoError(t, err)
			require.NotEmpty(t, items.Items)
		}
		writing.Wait()
		require.Greater(t, r.requireIntact(t).First, uint64(1), "old files were removed")
	})
}

// A member that was killed in the middle of a write leaves a part of the write.
func TestReader_ignoresATornEnd(t *testing.T) {
	a := newAppliance(t)
	r := a.reader()
	a.run(t, func(trail *Trail) { changes(t, trail, 3) })
	head := r.requireIntact(t).Last
	path := a.files(t)[0]
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	whole, err := r.List(t.Context(), Filter{})
	require.NoError(t, err)
	line := bytes.SplitAfter(content, []byte("\n"))[1]
	for _, rest := range [][]byte{{'x'}, line[:50], append(bytes.Clone(line[:len(line)-signatureLength-1]), "}\n"...)} {
		require.NoError(t, os.WriteFile(path, append(bytes.Clone(content), rest...), 0o600))
		require.Equal(t, head, r.requireIntact(t, head).Last)
		listed, err := r.List(t.Context(), Filter{})
		require.NoError(t, err)
		require.Equal(t, whole, listed)
	}
	require.NoError(t, os.WriteFile(path, content[:len(content)-5], 0o600))
	report, err := r.Verify(t.Context(), Expect{Heads: []Head{head}})
	require.NoError(t, err)
	require.NotEmpty(t, report.Problems, "the last record was complete, as the head of the store says")
}

func TestReader_findsIntrusions(t *testing.T) {
	for name, change := range intrusions() {
		t.Run(name, func(t *testing.T) {
			a := newAppliance(t)
			a.run(t, func(trail *Trail) {
				changes(t, trail, 10)
				require.NoError(t, trail.Record(ana(t), Entry{Operation: "marker"}))
			})
			kept := a.reader().requireIntact(t).Last // what the store keeps
			intrude(t, a.files(t)[0], change)
			report, err := a.reader().Verify(t.Context(), Expect{Heads: []Head{kept}})
			require.NoError(t, err)
			require.NotEmpty(t, report.Problems)
		})
	}
}
