package console

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/discovery"
	"landfall/web/image/progress"
	"landfall/web/problem"
)

// images contains the infra-env i-1.
type images struct {
	valid   time.Duration
	renewed int
	revoked int
}

func (*images) find(id string) error {
	if id != "i-1" {
		return problem.NotFound("there is no infra-env %s", id)
	}
	return nil
}

func (i *images) Describe(_ context.Context, id string) (*discovery.Description, error) {
	return &discovery.Description{URL: "http://bastion:8090/i-1", SizeBytes: 7, SHA256: "ab", ETag: `"x"`,
		Type: "full-iso"}, i.find(id)
}

func (i *images) Reads(_ context.Context, id string) ([]progress.Report, error) {
	return []progress.Report{{Client: "10.0.0.7", State: progress.Stopped, Sentence: "BMC 10.0.0.7 has stopped."}},
		i.find(id)
}

func (i *images) RenewShortURL(_ context.Context, id string, valid time.Duration) (*discovery.ShortURL, error) {
	i.valid = valid
	i.renewed++
	return &discovery.ShortURL{URL: "http://bastion:8090/i/abc.iso"}, i.find(id)
}

func (i *images) DropCodes(string) {}

func (i *images) RevokeShortURL(_ context.Context, id string) error {
	i.revoked++
	return i.find(id)
}

func TestImages_readsOfInfraEnv(t *testing.T) {
	s := newTestServer(t, application)
	response := send(s, http.MethodGet, "/infra-envs/i-1/reads", "")
	require.Equal(t, http.StatusOK, response.Code)
	var answer struct {
		Reads []map[string]any `json:"reads"`
	}
	require.NoError(t, json.Unmarshal(response.Body.Bytes(), &answer))
	require.Equal(t, "10.0.0.7", answer.Reads[0]["client"])
	require.Equal(t, "stopped", answer.Reads[0]["state"])
	require.Equal(t, http.StatusNotFound, send(s, http.MethodGet, "/infra-envs/none/reads", "").Code)
}

func TestImages_viewersGetNoURLs(t *testing.T) {
	s := newTestServer(t, application)
	response := s.getAs(access.Viewer, "/api/landfall/v1/infra-envs/i-1/image")
	require.Equal(t, http.StatusOK, response.Code)
	require.NotContains(t, response.Body.String(), "bastion")
	require.Contains(t, response.Body.String(), "only operators and administrators")
}

func TestShortURL_renewAndRevoke(t *testing.T) {
	s := newTestServer(t, application)
	for body, valid := range map[string]time.Duration{"": 0, "{}": 0, `{"valid_seconds": 3600}`: time.Hour} {
		response := send(s, http.MethodPost, "/infra-envs/i-1/short-url", body)
		require.Equal(t, http.StatusOK, response.Code, body)
		require.JSONEq(t, `{"short_url": "http://bastion:8090/i/abc.iso", "short_url_expires": null}`,
			response.Body.String())
		require.Equal(t, valid, s.images.valid)
	}
	require.Equal(t, http.StatusNoContent, send(s, http.MethodDelete, "/infra-envs/i-1/short-url", "").Code)
	require.Equal(t, 1, s.images.revoked)
	require.Equal(t, http.StatusNotFound, send(s, http.MethodDelete, "/infra-envs/none/short-url", "").Code)
}

func TestShortURL_invalidLifetime(t *testing.T) {
	s := newTestServer(t, application)
	for body, sentence := range map[string]string{
		`{"valid_seconds": 0}`:                   "valid_seconds is 0",
		`{"valid_seconds": -5}`:                  "valid_seconds is -5",
		`{"valid_seconds": 9223372036854775807}`: "send a number of seconds above 0",
		`{"valid_seconds": "soon"}`:              "the body is invalid",
		`[`:                                      "the body is invalid",
	} {
		response := send(s, http.MethodPost, "/infra-envs/i-1/short-url", body)
		require.Equal(t, http.StatusBadRequest, response.Code, body)
		require.Contains(t, response.Body.String(), sentence)
	}
	require.Zero(t, s.images.renewed)
}
