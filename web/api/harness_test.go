package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/discovery"
	"landfall/appliance/engine"
	"landfall/appliance/mirror"
	"landfall/appliance/release"
	"landfall/logtest"
	"landfall/store"
	"landfall/web"
	"landfall/web/api"
)

// served is the API over an engine whose clock and timers do not advance. Only requests write to
// the store.
type served struct {
	testing.TB
	server *web.Server
	db     *store.DB
}

func newServed(t testing.TB, options ...func(*api.Service)) *served {
	t.Helper()
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	e, err := engine.New(engine.Options{
		DB: db, Releases: onlyPayload{}, Mirror: &mirror.Rules{}, URL: "http://appliance.site.test:8090",
		Images: engine.Images{Agent: agentImage},
		ReleaseList: []engine.ReleaseImage{{OpenshiftVersion: "4.20.8", CPUArchitecture: "x86_64",
			URL: "quay.io/release:4.20.8", Default: true},
			{OpenshiftVersion: "4.20.8", CPUArchitecture: "multi", URL: "quay.io/release:4.20.8-multi"},
			{OpenshiftVersion: "4.14.30", CPUArchitecture: "x86_64", URL: "quay.io/release:4.14.30"}},
	})
	require.NoError(t, err)
	server := web.New(web.Options{Logger: logtest.New(t, slog.LevelError)})
	service := &api.Service{
		Engine:        e,
		Links:         discovery.NewLinks(db, clockwork.NewRealClock(), "http://appliance.site.test:8090"),
		ManifestBytes: 1 << 20, LogUploadBytes: 1 << 20,
		Version: "test",
	}
	for _, option := range options {
		option(service)
	}
	require.NoError(t, service.Register(server))
	return &served{t, server, db}
}

// onlyPayload is a source of one release that clusters can name but not install.
type onlyPayload struct{}

func (onlyPayload) Payload(_ context.Context, pullSpec, arch string, _ authn.Keychain) (*release.Payload, error) {
	images := make(map[string]string)
	for _, tag := range []string{release.TagInstaller, release.TagAgent, release.TagHostInstaller,
		release.TagController, release.TagMachineConfigOperator, release.TagMustGather} {
		images[tag] = "quay.io/parts/" + tag + "@sha256:" + strings.Repeat("a", 64)
	}
	return &release.Payload{PullSpec: pullSpec, Image: "quay.io/release@sha256:" + strings.Repeat("b", 64),
		Version: "4.20.8", Architecture: arch, Images: images}, nil
}

func (onlyPayload) Installer(context.Context, *release.Payload, authn.Keychain,
	func(done, total int64)) (*release.Installer, func(), error) {
	return nil, nil, errors.New("the mirror lacks it")
}

func (onlyPayload) Generate(context.Context, *release.Installer, release.GenerateRequest) (*release.Generated, error) {
	return nil, errors.New("the mirror lacks it")
}

func (s *served) send(method, path string, header http.Header, body []byte) *httptest.ResponseRecorder {
	s.Helper()
	request := httptest.NewRequest(method, "/", bytes.NewReader(body))
	request.URL.Path, request.URL.RawPath, request.URL.RawQuery = "", "", ""
	where, query, _ := strings.Cut(api.BasePath+path, "?")
	decoded, err := url.PathUnescape(where)
	require.NoError(s, err)
	request.URL.Path, request.URL.RawPath, request.URL.RawQuery = decoded, where, query
	maps.Copy(request.Header, header)
	recorder := httptest.NewRecorder()
	s.server.ServeHTTP(recorder, request)
	return recorder
}

func (s *served) create(path string, description object) string {
	s.Helper()
	text, err := json.Marshal(description)
	require.NoError(s, err)
	recorder := s.send(http.MethodPost, path, nil, text)
	require.Equal(s, http.StatusCreated, recorder.Code, recorder.Body)
	var created struct{ ID string }
	require.NoError(s, json.Unmarshal(recorder.Body.Bytes(), &created))
	return created.ID
}

type object = map[string]any

// ids returns the path parameters of existing objects.
func (s *served) ids() map[string]string {
	s.Helper()
	cluster := s.create("/v2/clusters", object{"name": "east", "openshift_version": "4.20",
		"pull_secret": anyPullSecret})
	env := s.create("/v2/infra-envs", object{"name": "env", "openshift_version": "4.20", "pull_secret": anyPullSecret,
		"cluster_id": cluster})
	host := s.create("/v2/infra-envs/"+env+"/hosts", object{"host_id": uuid.NewString()})
	return map[string]string{
		"cluster_id": cluster, "infra_env_id": env, "host_id": host,
		"validation_id": "container-images-available", "operator_name": "lvm", "id": "virtualization",
	}
}

// agentImage is the agent image of the appliance's own version.
const agentImage = "quay.io/agent:2"

// agent is the agent of a host.
type agent struct {
	*served
	cluster, env, id string
}

// newAgent registers the only host of a new cluster.
func (s *served) newAgent() *agent {
	s.Helper()
	ids := s.ids()
	a := &agent{s, ids["cluster_id"], ids["infra_env_id"], uuid.NewString()}
	require.Equal(s, http.StatusNoContent, s.send(http.MethodDelete, a.at()+"/"+ids["host_id"], nil, nil).Code)
	require.Equal(s, http.StatusCreated, a.register(agentImage))
	return a
}

func (a *agent) at() string { return "/v2/infra-envs/" + a.env + "/hosts" }

func (a *agent) post(path string, body any) *httptest.ResponseRecorder {
	a.Helper()
	text, err := json.Marshal(body)
	require.NoError(a, err)
	return a.send(http.MethodPost, path, nil, text)
}

func (a *agent) register(version string) int {
	a.Helper()
	return a.post(a.at(), object{"host_id": a.id, "discovery_agent_version": version}).Code
}

// reply sends an agent's reply to a step.
func (a *agent) reply(kind models.StepType, step string, output any) *httptest.ResponseRecorder {
	a.Helper()
	text, ok := output.(string)
	if !ok {
		encoded, err := json.Marshal(output)
		require.NoError(a, err)
		text = string(encoded)
	}
	return a.post(a.at()+"/"+a.id+"/instructions", object{"step_type": kind, "step_id": step, "exit_code": 0,
		"output": text})
}

func (a *agent) steps(query string) []models.StepType {
	a.Helper()
	recorder := a.send(http.MethodGet, a.at()+"/"+a.id+"/instructions?discovery_agent_version="+agentImage+query,
		nil, nil)
	require.Equal(a, http.StatusOK, recorder.Code, recorder.Body)
	var steps models.Steps
	require.NoError(a, json.Unmarshal(recorder.Body.Bytes(), &steps))
	var kinds []models.StepType
	for _, step := range steps.Instructions {
		kinds = append(kinds, step.StepType)
	}
	return kinds
}

func (a *agent) host() *models.Host {
	a.Helper()
	recorder := a.send(http.MethodGet, a.at()+"/"+a.id, nil, nil)
	require.Equal(a, http.StatusOK, recorder.Code, recorder.Body)
	host := new(models.Host)
	require.NoError(a, json.Unmarshal(recorder.Body.Bytes(), host))
	return host
}

// machine returns the inventory of a machine that meets the requirements of every role.
func machine(hostname string) *models.Inventory {
	return &models.Inventory{
		Hostname: hostname, CPU: &models.CPU{Count: 16, Architecture: "x86_64"},
		Memory: &models.Memory{PhysicalBytes: 64 << 30, UsableBytes: 64 << 30},
		Boot:   &models.Boot{CurrentBootMode: "uefi"}, SystemVendor: &models.SystemVendor{Manufacturer: "m",
			ProductName: "p", SerialNumber: hostname},
		Disks: []*models.Disk{{ID: "/dev/disk/by-id/a", Name: "sda", Path: "/dev/sda",
			DriveType: models.DriveTypeSSD, SizeBytes: 480_000_000_000, Hctl: "0:0:0:0"}},
		Interfaces: []*models.Interface{{Name: "eth0", MacAddress: "52:54:00:00:00:01",
			IPV4Addresses: []string{"192.0.2.10/24"}, HasCarrier: true, SpeedMbps: 10000, Mtu: 1500}},
		Routes: []*models.Route{{Interface: "eth0", Gateway: "192.0.2.1", Destination: "0.0.0.0", Family: 2}},
	}
}

// validationStatuses returns the statuses of validations without their messages, which contain the
// host's name.
func validationStatuses(t *testing.T, info string) string {
	t.Helper()
	var groups map[string][]struct{ ID, Status string }
	require.NoError(t, json.Unmarshal([]byte(info), &groups))
	var lines []string
	for _, group := range groups {
		for _, result := range group {
			lines = append(lines, result.ID+" "+result.Status)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (s *served) patch(path string, body any, status int) []byte {
	s.Helper()
	text, err := json.Marshal(body)
	require.NoError(s, err)
	recorder := s.send(http.MethodPatch, path, nil, text)
	require.Equal(s, status, recorder.Code, recorder.Body)
	return recorder.Body.Bytes()
}

func (a *agent) clusterNow() *models.Cluster {
	a.Helper()
	recorder := a.send(http.MethodGet, "/v2/clusters/"+a.cluster, nil, nil)
	require.Equal(a, http.StatusOK, recorder.Code, recorder.Body)
	cluster := new(models.Cluster)
	require.NoError(a, json.Unmarshal(recorder.Body.Bytes(), cluster))
	return cluster
}

func (a *agent) reportMachine(inventory *models.Inventory) {
	a.Helper()
	recorder := a.reply(models.StepTypeInventory, "inventory-0123abcd", inventory)
	require.Equal(a, http.StatusNoContent, recorder.Code, recorder.Body)
}

// validationStatus returns the status of one validation of a cluster or host.
func validationStatus(t testing.TB, info, id string) string {
	t.Helper()
	var groups map[string][]struct{ ID, Status string }
	require.NoError(t, json.Unmarshal([]byte(info), &groups))
	for _, group := range groups {
		for _, result := range group {
			if result.ID == id {
				return result.Status
			}
		}
	}
	return ""
}

func ip(text string) *strfmt.IPv4 { address := strfmt.IPv4(text); return &address }
