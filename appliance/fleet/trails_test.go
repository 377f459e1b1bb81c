package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/audittrail"
	"landfall/appliance/fault"
	"landfall/appliance/fleet"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// writeTrail writes an audit trail with a login of ana, and returns a reader of its files.
func writeTrail(t *testing.T, key *sitekey.Key) (audittrail.Reader, audittrail.Head) {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(t.Context(), dir, store.Options{NoSync: true})
	require.NoError(t, err)
	of := audittrail.Reader{Dir: filepath.Join(dir, audittrail.DirName), Key: key, Clock: clockwork.NewFakeClock()}
	trail, err := audittrail.Open(audittrail.Options{Dir: of.Dir, Key: key, DB: db, Clock: of.Clock})
	require.NoError(t, err)
	require.NoError(t, trail.Record(t.Context(), audittrail.Entry{Operation: "login", Text: "ana & bert"}))
	require.NoError(t, errors.Join(trail.Close(), db.Close()))
	return of, trail.Head()
}

// member starts a member that answers others, and returns it as a peer.
func member(t *testing.T, key *sitekey.Key, peers *fleet.Peers) fleet.Peer {
	t.Helper()
	peers.Refuse, peers.Logger = refuse, quiet()
	behind := &fleet.Behind{Forwarder: newFollower(t, key, 0).Forwarder, Peers: peers}
	return fleet.Peer{Name: "two", URL: serve(t, credential(t, key, "two"), behind.Handler(fleet.Main)).URL}
}

func TestTrail_ofAnotherMember(t *testing.T) {
	key := newKey(t)
	of, head := writeTrail(t, key)
	asking := fleet.NewClient(credential(t, key, "one"), clockwork.NewRealClock())
	t.Cleanup(asking.Close)
	two := member(t, key, &fleet.Peers{Trail: of})
	trail := asking.Trail(two, head)

	for _, filter := range []audittrail.Filter{{}, {Operation: "login"}, {Limit: 1}, {Before: 2}, {Person: "eve"}} {
		want, err := of.List(t.Context(), filter)
		require.NoError(t, err)
		got, err := trail.List(t.Context(), filter)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	report, err := trail.Verify(t.Context(), audittrail.Expect{Heads: []audittrail.Head{head}})
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	require.Equal(t, head, report.Last)
	for _, after := range []uint64{0, 2} {
		var want, got bytes.Buffer
		require.NoError(t, of.Export(t.Context(), &want, after))
		require.NoError(t, trail.Export(t.Context(), &got, after))
		wanted, exported := bytes.Split(want.Bytes(), []byte("\n")), bytes.Split(got.Bytes(), []byte("\n"))
		require.Equal(t, wanted[:len(wanted)-2], exported[:len(exported)-2], "the records before the signed head")
		require.Contains(t, string(exported[len(exported)-2]), head.Hash)
	}

	lost := asking.Trail(two, audittrail.Head{Sequence: head.Sequence + 1, Hash: head.Hash})
	report, err = lost.Verify(t.Context(), audittrail.Expect{})
	require.NoError(t, err)
	require.NotEmpty(t, report.Problems, "the store of the member that asks knows a newer record")
}

// brokenTrail is a trail on a disk that fails in the middle of a file.
type brokenTrail struct{ audittrail.Reader }

var errDisk = errors.New("input/output error")

func (brokenTrail) List(context.Context, audittrail.Filter) (*audittrail.Page, error) {
	return nil, errDisk
}

func (brokenTrail) Verify(context.Context, audittrail.Expect) (*audittrail.Report, error) {
	return nil, errDisk
}

func (brokenTrail) Export(_ context.Context, w io.Writer, _ uint64) error {
	_, err := w.Write(bytes.Repeat([]byte("{}\n"), 10_000))
	return errors.Join(err, errDisk)
}

func TestTrail_thatCantBeRead(t *testing.T) {
	key := newKey(t)
	asking := fleet.NewClient(credential(t, key, "one"), clockwork.NewRealClock())
	t.Cleanup(asking.Close)
	away := serve(t, credential(t, key, "two"), http.NotFoundHandler())
	away.Close()
	older := serve(t, credential(t, key, "two"), http.NotFoundHandler())
	for url, want := range map[string]string{
		member(t, key, &fleet.Peers{Trail: brokenTrail{}}).URL: "start the member there, or look at its log",
		away.URL:  "it is on the machine with the URL " + away.URL,
		older.URL: "runs an older version of Landfall",
	} {
		trail := asking.Trail(fleet.Peer{Name: "two", URL: url}, audittrail.Head{})
		_, listErr := trail.List(t.Context(), audittrail.Filter{})
		_, verifyErr := trail.Verify(t.Context(), audittrail.Expect{})
		for _, err := range []error{listErr, verifyErr, trail.Export(t.Context(), io.Discard, 0)} {
			require.Equal(t, fault.Unavailable, fault.KindOf(err))
			require.ErrorContains(t, err, "the audit trail of the member two can't be read")
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "%7B", "the query says nothing to a person")
		}
	}
}

func TestPeers_refuseUnknownRequestsForTrails(t *testing.T) {
	key := newKey(t)
	of, _ := writeTrail(t, key)
	two := member(t, key, &fleet.Peers{Trail: of})
	own := credential(t, key, "one")
	asking := &http.Client{Transport: &http.Transport{TLSClientConfig: own.Client()}}
	t.Cleanup(asking.CloseIdleConnections)
	for path, want := range map[string]string{
		"list":             "the parameter filter is no JSON",
		"list?filter=x":    "the parameter filter is no JSON",
		"verify?expect=[]": "the parameter expect is no JSON",
		"export?after=-1":  "the parameter after is no JSON",
		"erase":            "members have no path /fleet/trail/erase",
	} {
		status, text := get(t, asking, two.URL+"/fleet/trail/"+path)
		require.GreaterOrEqual(t, status, http.StatusBadRequest, path)
		require.Contains(t, text, want)
	}
	entries, err := os.ReadDir(of.Dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
