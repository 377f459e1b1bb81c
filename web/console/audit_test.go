package console

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/audittrail"
	"landfall/appliance/fleet"
	"landfall/appliance/fleet/membership"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/web"
)

func newAuditServer(t *testing.T) (*web.Server, *audittrail.Trail) {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(t.Context(), dir, store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	key, err := sitekey.LoadOrCreate(dir)
	require.NoError(t, err)
	trail, err := audittrail.Open(audittrail.Options{Dir: filepath.Join(dir, audittrail.DirName), DB: db, Key: key})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, trail.Close()) })
	for range 5 {
		require.NoError(t, trail.Record(t.Context(), audittrail.Entry{Operation: "login"}))
	}
	return serveAudit(t, trail, new(membership.Single).Trails(trail)), trail
}

func serveAudit(t *testing.T, own *audittrail.Trail, of membership.Trails) *web.Server {
	t.Helper()
	server := web.New(web.Options{})
	require.NoError(t, server.Register(AuditOperations(own, of)...))
	return server
}

func getFrom(server http.Handler, path string) *httptest.ResponseRecorder {
	response := httptest.NewRecorder()
	server.ServeHTTP(response, httptest.NewRequest(http.MethodGet, AuditRoute+path, nil))
	return response
}

func TestAudit_listsPages(t *testing.T) {
	server, _ := newAuditServer(t)
	var first, second audittrail.Page
	require.NoError(t, json.Unmarshal(getFrom(server, "?operation=login&limit=3").Body.Bytes(), &first))
	require.Len(t, first.Items, 3)
	require.Equal(t, uint64(4), first.Next)
	require.NoError(t, json.Unmarshal(getFrom(server, "?operation=login&limit=3&before=4").Body.Bytes(), &second))
	require.Len(t, second.Items, 2)
	require.Zero(t, second.Next)
}

func TestAudit_verifiesAndExports(t *testing.T) {
	server, trail := newAuditServer(t)
	var report audittrail.Report
	response := getFrom(server, "/verify?head="+trail.Head().String())
	require.NoError(t, json.Unmarshal(response.Body.Bytes(), &report))
	require.True(t, report.Intact())
	require.Equal(t, 6, report.Records)
	foreign := audittrail.Head{Sequence: 3, Hash: strings.Repeat("a", 64)}
	require.NoError(t, json.Unmarshal(getFrom(server, "/verify?head="+foreign.String()).Body.Bytes(), &report))
	require.False(t, report.Intact())

	exported := getFrom(server, "/export")
	require.Contains(t, exported.Header().Get("Content-Disposition"), "audit-6.jsonl")
	checked, err := audittrail.VerifyExport(exported.Body, audittrail.Expect{Heads: []audittrail.Head{trail.Head()}})
	require.NoError(t, err)
	require.True(t, checked.Intact())
	require.Equal(t, 2, strings.Count(getFrom(server, "/export?after=5").Body.String(), "\n"))
}

// awayTrail is the trail of a member that is away.
type awayTrail struct{ fleet.Trail }

func (awayTrail) Export(context.Context, io.Writer, uint64) error {
	return fleet.TrailAway(fleet.Peer{Name: "three", URL: "https://three"}, errors.New("connection refused"))
}

func TestAudit_readsTrailsOfMembers(t *testing.T) {
	_, own := newAuditServer(t)
	_, other := newAuditServer(t)
	require.NoError(t, other.Record(t.Context(), audittrail.Entry{Operation: "logOut"}))
	server := serveAudit(t, own, func(_ context.Context, member string) (fleet.Trail, error) {
		return map[string]fleet.Trail{"two": other, "three": awayTrail{}}[member], nil
	})
	for query, want := range map[string]audittrail.Head{"": own.Head(), "?member=two": other.Head()} {
		var page audittrail.Page
		require.NoError(t, json.Unmarshal(getFrom(server, query).Body.Bytes(), &page))
		require.Equal(t, want.Sequence, page.Items[0].Sequence)
		var report audittrail.Report
		require.NoError(t, json.Unmarshal(getFrom(server, "/verify"+query).Body.Bytes(), &report))
		require.Equal(t, want, report.Last)
		require.Contains(t, getFrom(server, "/export"+query).Body.String(), want.Hash)
	}
	require.Contains(t, getFrom(server, "/export?member=two").Header().Get("Content-Disposition"), "audit-two.jsonl")
	away := getFrom(server, "/export?member=three")
	require.Equal(t, http.StatusServiceUnavailable, away.Code)
	require.Contains(t, away.Body.String(), "it is on the machine with the URL https://three")
	require.Empty(t, away.Header().Get("Content-Disposition"))
}

func TestAudit_wrongParametersAreRejected(t *testing.T) {
	server, _ := newAuditServer(t)
	for path, want := range map[string]string{
		"?since=yesterday": "since is", "?until=1": "until is", "?before=x": "before is", "?limit=-1": "limit is",
		"?limit=1001": "limit is 1001", "/verify?head=1": "is not the head of an audit trail",
		"?member=two": "is in no fleet", "/verify?member=two": "is in no fleet", "/export?member=two": "is in no fleet",
		"/verify?head=x:" + strings.Repeat("0", 64): "is not the head", "/export?after=x": "after is",
	} {
		response := getFrom(server, path)
		require.Equal(t, http.StatusBadRequest, response.Code, path)
		require.Contains(t, response.Body.String(), want, path)
	}
}
