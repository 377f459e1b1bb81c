package simulate

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/uuid"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"landfall/ignition"
	"landfall/isogen"
	"landfall/isogen/skeleton"
)

const testToken = "token-of-the-infra-env"

// appliance implements the parts of an appliance that a group needs. It validates every request
// body with the models, stores states and stages, and fails the test if a host violates the
// protocol.
type appliance struct {
	t        *testing.T
	server   *httptest.Server
	infraEnv strfmt.UUID
	cluster  strfmt.UUID
	image    *isogen.Image
	images   []string

	// A test sets the fields below before it starts a group.
	workers int // number of workers; the last hosts are workers
	// number of hosts in the state known at which the installation starts; 0: never
	expect      int
	unbound     bool                           // the infra-env has no cluster
	digest      string                         // digest that is published for the image, or ""
	bootDevice  string                         // "" for the host's first disk
	outage      func(*http.Request) bool       // requests whose connection breaks
	refuse      func(*http.Request) int        // status with which a request is rejected; 0: none
	kubeconfig  string                         // content of kubeconfig-noingress
	afterStage  func(*models.Host)             // called with the lock held
	extraSteps  map[string][]*models.Step      // additional steps for hosts in a state
	badIgnition bool                           // the hosts' own configs are invalid
	olm         []string                       // operators that OLM adds
	exitIn      map[string]bool                // states in which the runner must exit
	onReply     func(string, models.StepReply) // called with the lock held

	mu            sync.Mutex
	hosts         map[strfmt.UUID]*models.Host
	order         []strfmt.UUID
	status        string
	finalizing    []models.FinalizingStage
	operators     map[string]models.OperatorStatus
	stages        map[strfmt.UUID][]models.HostStage
	replies       map[strfmt.UUID][]models.StepReply
	registrations map[strfmt.UUID]int
	prepared      map[strfmt.UUID]map[models.StepType]bool
	logs          map[string]int
	ingress       string
	completion    *models.CompletionParams
	downloaded    int64
	timestamps    map[strfmt.UUID]int64
}

func newAppliance(t *testing.T) *appliance {
	t.Helper()
	a := &appliance{
		t: t, infraEnv: strfmt.UUID(uuid.NewString()), cluster: strfmt.UUID(uuid.NewString()),
		status: models.ClusterStatusInsufficient,
		hosts:  map[strfmt.UUID]*models.Host{}, operators: map[string]models.OperatorStatus{},
		stages: map[strfmt.UUID][]models.HostStage{}, replies: map[strfmt.UUID][]models.StepReply{},
		registrations: map[strfmt.UUID]int{},
		prepared:      map[strfmt.UUID]map[models.StepType]bool{}, logs: map[string]int{},
		timestamps: map[strfmt.UUID]int64{},
		kubeconfig: "clusters:\n- cluster:\n    server: https://api.demo.example.com:6443\nusers:\n- name: admin\n",
	}
	mux := http.NewServeMux()
	a.routes(mux)
	a.server = httptest.NewServer(a.checked(mux))
	t.Cleanup(a.server.Close)
	a.images = serveImages(t, "agent", "installer", "release")
	a.image = a.buildImage()
	return a
}

// serveImages starts a registry with one small image of each name.
func serveImages(t *testing.T, names ...string) []string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	var specs []string
	for _, image := range names {
		spec := strings.TrimPrefix(server.URL, "http://") + "/site/" + image + ":1"
		reference, err := name.ParseReference(spec)
		require.NoError(t, err)
		content, err := random.Image(512, 2)
		require.NoError(t, err)
		require.NoError(t, remote.Write(reference, content))
		specs = append(specs, spec)
	}
	return specs
}

func (a *appliance) buildImage() *isogen.Image {
	config, err := ignition.Discovery(ignition.DiscoveryConfig{
		InfraEnvID: string(a.infraEnv), ServiceURL: a.server.URL, AgentImage: a.images[0], PullSecretToken: testToken,
		PullSecret: `{"auths":{"registry.example.com":{"auth":"dXNlcjpwYXNz"}}}`,
	})
	require.NoError(a.t, err)
	var base bytes.Buffer
	require.NoError(a.t, skeleton.Write(&base, skeleton.ISO{RootFSSize: 2 << 20}))
	path := filepath.Join(a.t.TempDir(), "live.iso")
	require.NoError(a.t, os.WriteFile(path, base.Bytes(), 0o600))
	opened, err := isogen.Open(path)
	require.NoError(a.t, err)
	a.t.Cleanup(func() { assert.NoError(a.t, opened.Close()) })
	image, err := opened.Full(isogen.Payload{Ignition: config})
	require.NoError(a.t, err)
	return image
}

// group returns a fast group for this appliance.
func (a *appliance) group(count int) *HostGroup {
	return &HostGroup{URL: a.server.URL, InfraEnvID: string(a.infraEnv), Count: count, Speed: 1e6,
		HTTP: a.server.Client()}
}

func (a *appliance) checked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.outage != nil && a.outage(r) {
			panic(http.ErrAbortHandler)
		}
		if a.refuse != nil {
			if status := a.refuse(r); status != 0 {
				a.answer(w, status, &models.Error{Reason: conv.Pointer("rejected by the test")})
				return
			}
		}
		assert.NotEmpty(a.t, r.Header.Get("X-Request-Id"), "%s %s has no request id", r.Method, r.URL.Path)
		body, err := io.ReadAll(r.Body)
		if err != nil { // the requests of a stopped group are canceled, and their responses are ignored
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

func (a *appliance) answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	if body == nil {
		w.WriteHeader(status)
		return
	}
	text, err := json.Marshal(body)
	assert.NoError(a.t, err)
	w.WriteHeader(status)
	a.send(w, string(text))
}

// read decodes a body strictly and validates it.
func (a *appliance) read(r *http.Request, into arguments) {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	assert.NoError(a.t, decoder.Decode(into), "%s %s", r.Method, r.URL.Path)
	assert.NoError(a.t, into.Validate(strfmt.Default), "%s %s", r.Method, r.URL.Path)
}

func (a *appliance) routes(mux *http.ServeMux) {
	handle := func(pattern string, serve func(http.ResponseWriter, *http.Request, *models.Host)) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" /api/assisted-install/v2"+path, func(w http.ResponseWriter, r *http.Request) {
			if method != http.MethodGet {
				assert.Equal(a.t, testToken, r.Header.Get("X-Secret-Key"), "%s %s", method, path)
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			var h *models.Host
			if id := r.PathValue("host"); id != "" {
				if h = a.hosts[strfmt.UUID(id)]; h == nil {
					a.answer(w, http.StatusNotFound, &models.Error{Reason: conv.Pointer("the host does not exist")})
					return
				}
			}
			serve(w, r, h)
		})
	}
	handle("GET /infra-envs/{ie}/downloads/image-url", func(w http.ResponseWriter, r *http.Request, _ *models.Host) {
		a.answer(w, http.StatusOK, &models.PresignedURL{URL: conv.Pointer("/images/full.iso")})
	})
	mux.HandleFunc("GET /images/full.iso", a.serveImage)
	mux.HandleFunc("GET /images/full.iso.sha256", func(w http.ResponseWriter, r *http.Request) {
		if a.digest == "" {
			http.NotFound(w, r)
			return
		}
		_, err := fmt.Fprintf(w, "%s  full.iso\n", a.digest)
		assert.NoError(a.t, err)
	})
	handle("POST /infra-envs/{ie}/hosts", a.register)
	handle("GET /infra-envs/{ie}/hosts/{host}", func(w http.ResponseWriter, _ *http.Request,
		h *models.Host) {
		a.answer(w, http.StatusOK, h)
	})
	handle("GET /infra-envs/{ie}/hosts", func(w http.ResponseWriter, r *http.Request, _ *models.Host) {
		assert.Equal(a.t, testToken, r.Header.Get("X-Secret-Key"), "machines list hosts")
		list := models.HostList{}
		for _, id := range a.order {
			list = append(list, a.hosts[id])
		}
		a.answer(w, http.StatusOK, list)
	})
	handle("GET /infra-envs/{ie}/hosts/{host}/instructions", a.instruct)
	handle("POST /infra-envs/{ie}/hosts/{host}/instructions", a.receiveReply)
	handle("PUT /infra-envs/{ie}/hosts/{host}/progress", a.receiveProgress)
	handle("PUT /infra-envs/{ie}/hosts/{host}/logs-progress", func(w http.ResponseWriter, r *http.Request,
		_ *models.Host) {
		a.read(r, &models.LogsProgressParams{})
		a.answer(w, http.StatusNoContent, nil)
	})
	handle("GET /infra-env/{ie}/hosts/{host}/downloads/ignition", func(w http.ResponseWriter, _ *http.Request,
		_ *models.Host) {
		if a.badIgnition {
			a.sendFile(w, `{"ignition":{}}`)
			return
		}
		a.sendFile(w, `{"ignition":{"version":"3.2.0"}}`)
	})
	handle("GET /clusters/{cluster}/downloads/files", func(w http.ResponseWriter, r *http.Request, _ *models.Host) {
		if r.URL.Query().Get("file_name") == "custom_manifests.json" {
			a.sendFile(w, a.customResources())
			return
		}
		assert.Equal(a.t, "bootstrap.ign", r.URL.Query().Get("file_name"))
		a.sendFile(w, `{"ignition":{"version":"3.2.0"}}`)
	})
	handle("GET /clusters/{cluster}/downloads/credentials", func(w http.ResponseWriter, r *http.Request,
		_ *models.Host) {
		assert.Equal(a.t, "kubeconfig-noingress", r.URL.Query().Get("file_name"))
		a.sendFile(w, a.kubeconfig)
	})
	handle("GET /clusters/{cluster}", func(w http.ResponseWriter, r *http.Request, _ *models.Host) {
		a.answer(w, http.StatusOK, a.describe(r.Header.Get("exclude-hosts") != "true"))
	})
	handle("GET /clusters/{cluster}/hosts", func(w http.ResponseWriter, r *http.Request, _ *models.Host) {
		list := models.HostList{}
		for _, id := range a.order {
			if role := r.URL.Query().Get("role"); role == "" || role == string(a.hosts[id].Role) {
				list = append(list, a.hosts[id])
			}
		}
		a.answer(w, http.StatusOK, list)
	})
	handle("POST /clusters/{cluster}/logs", a.receiveLogs)
	handle("PUT /clusters/{cluster}/logs-progress", func(w http.ResponseWriter, r *http.Request, _ *models.Host) {
		a.read(r, &models.LogsProgressParams{})
		a.answer(w, http.StatusNoContent, nil)
	})
	a.controllerRoutes(handle)
}

func (a *appliance) controllerRoutes(handle func(string, func(http.ResponseWriter, *http.Request, *models.Host))) {
	handle("GET /clusters/{cluster}/monitored-operators", func(w http.ResponseWriter, _ *http.Request, _ *models.Host) {
		list := models.MonitoredOperatorsList{}
		for _, operator := range []string{"console", "cvo"} {
			list = append(list, &models.MonitoredOperator{Name: operator, OperatorType: models.OperatorTypeBuiltin,
				Status: a.operators[operator]})
		}
		for _, operator := range a.olm {
			list = append(list, &models.MonitoredOperator{Name: operator, OperatorType: models.OperatorTypeOlm,
				Status: a.operators[operator]})
		}
		a.answer(w, http.StatusOK, list)
	})
	handle("PUT /clusters/{cluster}/monitored-operators", func(w http.ResponseWriter, r *http.Request, _ *models.Host) {
		var report models.OperatorMonitorReport
		a.read(r, &report)
		a.operators[report.Name] = report.Status
		a.answer(w, http.StatusOK, nil)
	})
	handle("PUT /clusters/{cluster}/progress", func(w http.ResponseWriter, r *http.Request, _ *models.Host) {
		var progress models.ClusterFinalizingProgress
		a.read(r, &progress)
		a.finalizing = append(a.finalizing, progress.FinalizingStage)
		a.answer(w, http.StatusOK, nil)
	})
	handle("POST /clusters/{cluster}/uploads/ingress-cert", func(w http.ResponseWriter, r *http.Request,
		_ *models.Host) {
		assert.NoError(a.t, json.NewDecoder(r.Body).Decode(&a.ingress))
		a.answer(w, http.StatusCreated, nil)
	})
	handle("POST /clusters/{cluster}/actions/complete-installation", func(w http.ResponseWriter, r *http.Request,
		_ *models.Host) {
		a.completion = &models.CompletionParams{}
		a.read(r, a.completion)
		a.status = models.ClusterStatusInstalled
		if !*a.completion.IsSuccess {
			a.status = models.ClusterStatusError
		}
		a.answer(w, http.StatusAccepted, a.describe(false))
	})
}

// customResources returns a resource for each operator that OLM installs.
func (a *appliance) customResources() string {
	var entries []string
	for _, operator := range a.olm {
		text := base64.StdEncoding.EncodeToString([]byte("{apiVersion: v1, kind: Thing, metadata: {name: a}}"))
		entries = append(entries, fmt.Sprintf(`{"Name":%q,"Content":%q}`, operator, text))
	}
	return "[" + strings.Join(entries, ",") + "]"
}

func (a *appliance) sendFile(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/octet-stream")
	a.send(w, text)
}

// send writes a body. It ignores that a host that was powered off does not receive the body.
func (a *appliance) send(w io.Writer, text string) {
	if _, err := io.WriteString(w, text); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func (a *appliance) serveImage(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	image := a.image
	a.mu.Unlock()
	reader := image.NewReader()
	w.Header().Set("ETag", image.ETag())
	counted := &countingWriter{ResponseWriter: w}
	http.ServeContent(counted, r, "full.iso", time.Time{}, reader)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.downloaded += counted.n
}

type countingWriter struct {
	http.ResponseWriter
	n int64
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.n += int64(n)
	return n, err
}

func (a *appliance) register(w http.ResponseWriter, r *http.Request, _ *models.Host) {
	var params models.HostCreateParams
	a.read(r, &params)
	assert.Equal(a.t, a.images[0], params.DiscoveryAgentVersion)
	id := *params.HostID
	a.registrations[id]++
	h, ok := a.hosts[id]
	if !ok {
		h = &models.Host{ID: &id, InfraEnvID: a.infraEnv, Kind: conv.Pointer(models.HostKindHost),
			Progress: &models.HostProgressInfo{}, Href: conv.Pointer("")}
		if !a.unbound {
			h.ClusterID = &a.cluster
		}
		a.hosts[id] = h
		a.order = append(a.order, id)
	}
	switch conv.Value(h.Status) {
	case models.HostStatusInstalling, models.HostStatusInstallingInProgress:
		if h.Progress.CurrentStage == models.HostStageRebooting {
			h.Status = conv.Pointer(models.HostStatusInstallingPendingUserAction)
		} else {
			assert.Fail(a.t, "a host registered during its installation", "at %s", h.Progress.CurrentStage)
		}
	case models.HostStatusError, models.HostStatusCancelled, models.HostStatusInstalled:
	default:
		h.Status, h.Progress = conv.Pointer(models.HostStatusDiscovering), &models.HostProgressInfo{}
	}
	request, err := json.Marshal(models.NextStepCmdRequest{InfraEnvID: &a.infraEnv, HostID: &id,
		AgentVersion: &a.images[0]})
	assert.NoError(a.t, err)
	a.answer(w, http.StatusCreated, map[string]any{
		"id": id, "infra_env_id": a.infraEnv, "kind": "Host", "status": h.Status,
		"next_step_runner_command": map[string]any{"args": []string{string(request)}, "retry_seconds": 1},
	})
}

func (a *appliance) describe(withHosts bool) *models.Cluster {
	c := &models.Cluster{
		ID: &a.cluster, Kind: conv.Pointer(models.ClusterKindCluster), Status: &a.status,
		StatusInfo:       conv.Pointer("set by the test"),
		OpenshiftVersion: "4.20.3", Progress: &models.ClusterProgressInfo{},
	}
	if len(a.finalizing) > 0 {
		c.Progress.FinalizingStage = a.finalizing[len(a.finalizing)-1]
	}
	if withHosts {
		for _, id := range a.order {
			c.Hosts = append(c.Hosts, a.hosts[id])
		}
	}
	return c
}

func stepOf(kind models.StepType, args ...string) *models.Step {
	if args == nil {
		args = []string{}
	}
	return &models.Step{StepType: kind, StepID: string(kind) + "-01234567", Args: args}
}

func (a *appliance) jsonText(v any) string {
	text, err := json.Marshal(v)
	assert.NoError(a.t, err)
	return string(text)
}

func (a *appliance) instruct(w http.ResponseWriter, r *http.Request, h *models.Host) {
	assert.Equal(a.t, testToken, r.Header.Get("X-Secret-Key"))
	var timestamp int64
	_, err := fmt.Sscan(r.URL.Query().Get("timestamp"), &timestamp)
	assert.NoError(a.t, err)
	a.timestamps[*h.ID] = timestamp

	steps := &models.Steps{NextInstructionSeconds: 60, PostStepAction: conv.Pointer(models.StepsPostStepActionContinue),
		Instructions: []*models.Step{}}
	id := string(*h.ID)
	status := *h.Status
	switch status {
	case models.HostStatusDiscovering:
		steps.Instructions = []*models.Step{stepOf(models.StepTypeInventory, id)}
	case models.HostStatusKnown:
		steps.Instructions = []*models.Step{
			stepOf(models.StepTypeInventory, id),
			stepOf(models.StepTypeNtpSynchronizer, `{"ntp_source":"ntp.example.com"}`),
		}
	case models.HostStatusPreparingForInstallation:
		steps.Instructions = []*models.Step{
			stepOf(models.StepTypeInstallationDiskSpeedCheck, `{"path":"`+a.deviceOf(h)+`"}`, "480.0"),
			stepOf(models.StepTypeContainerImageAvailability,
				a.jsonText(models.ContainerImageAvailabilityRequest{Images: a.images, Timeout: 960})),
		}
	case models.HostStatusInstalling:
		steps.Instructions = []*models.Step{stepOf(models.StepTypeInstall, a.installRequest(h))}
	case models.HostStatusError, models.HostStatusCancelled:
		gather := models.LogsGatherCmdRequest{
			Bootstrap: conv.Pointer(h.Bootstrap), ClusterID: &a.cluster, HostID: h.ID, InfraEnvID: &a.infraEnv,
			InstallerGather: true, MasterIps: []string{},
		}
		assert.NoError(a.t, gather.Validate(strfmt.Default))
		steps.Instructions = []*models.Step{stepOf(models.StepTypeLogsGather, a.jsonText(gather)),
			stepOf(models.StepTypeStopInstallation)}
	}
	steps.Instructions = append(steps.Instructions, a.extraSteps[status]...)
	if a.exitIn[status] {
		steps.PostStepAction = conv.Pointer(models.StepsPostStepActionExit)
	}
	assert.NoError(a.t, steps.Validate(strfmt.Default))
	a.answer(w, http.StatusOK, steps)
}

func (a *appliance) deviceOf(h *models.Host) string {
	if a.bootDevice != "" {
		return a.bootDevice
	}
	var inventory models.Inventory
	assert.NoError(a.t, json.Unmarshal([]byte(h.Inventory), &inventory))
	return inventory.Disks[1].ID
}

func (a *appliance) installRequest(h *models.Host) string {
	role := h.Role
	masters := int64(len(a.order) - a.workers)
	if h.Bootstrap {
		role = models.HostRoleBootstrap
	}
	if h.Role == models.HostRoleWorker {
		masters = 0
	}
	request := &models.InstallCmdRequest{
		BootDevice: conv.Pointer(a.deviceOf(h)), CheckCvo: conv.Pointer(true), ClusterID: &a.cluster,
		ControlPlaneCount: masters,
		ControllerImage:   &a.images[1], InstallerImage: &a.images[1], HostID: h.ID, InfraEnvID: &a.infraEnv,
		Role:     &role,
		McoImage: a.images[2], MustGatherImage: `{"ocp":"` + a.images[2] + `"}`,
		InstallerArgs: `["--append-karg","ip=dhcp"]`, OpenshiftVersion: "4.20.3",
		DisksToFormat: []string{}, ServiceIps: []string{},
	}
	assert.NoError(a.t, request.Validate(strfmt.Default))
	return a.jsonText(request)
}

func (a *appliance) receiveReply(w http.ResponseWriter, r *http.Request, h *models.Host) {
	var reply models.StepReply
	a.read(r, &reply)
	a.replies[*h.ID] = append(a.replies[*h.ID], reply)
	if a.onReply != nil {
		a.onReply(string(*h.ID), reply)
	}
	switch {
	case reply.StepType == models.StepTypeInventory && *h.Status == models.HostStatusDiscovering:
		var inventory models.Inventory
		assert.NoError(a.t, json.Unmarshal([]byte(reply.Output), &inventory))
		assert.NoError(a.t, inventory.Validate(strfmt.Default))
		h.Inventory, h.RequestedHostname = reply.Output, inventory.Hostname
		h.Status = conv.Pointer(models.HostStatusKnown)
		a.startWhenComplete()
	case *h.Status == models.HostStatusPreparingForInstallation && reply.ExitCode == 0:
		if a.prepared[*h.ID] == nil {
			a.prepared[*h.ID] = map[models.StepType]bool{}
		}
		a.prepared[*h.ID][reply.StepType] = true
		a.installWhenPrepared()
	}
	a.answer(w, http.StatusNoContent, nil)
}

func (a *appliance) startWhenComplete() {
	known := 0
	for _, h := range a.hosts {
		if *h.Status == models.HostStatusKnown {
			known++
		}
	}
	if a.expect == 0 || known < a.expect {
		return
	}
	a.status = models.ClusterStatusPreparingForInstallation
	slices.SortFunc(a.order, func(x, y strfmt.UUID) int {
		return strings.Compare(a.hosts[x].RequestedHostname, a.hosts[y].RequestedHostname)
	})
	for i, id := range a.order {
		h := a.hosts[id]
		h.Status, h.Role, h.Bootstrap = conv.Pointer(models.HostStatusPreparingForInstallation), models.HostRoleMaster,
			i == 0
		if i >= len(a.order)-a.workers {
			h.Role = models.HostRoleWorker
		}
		if len(a.order) == 1 {
			h.ProgressStages = []models.HostStage{models.HostStageWaitingForBootkube,
				models.HostStageWritingImageToDisk}
		}
	}
}

func (a *appliance) installWhenPrepared() {
	for _, id := range a.order {
		if len(a.prepared[id]) < 2 {
			return
		}
	}
	a.status = models.ClusterStatusInstalling
	for _, h := range a.hosts {
		h.Status = conv.Pointer(models.HostStatusInstalling)
	}
}

func (a *appliance) receiveProgress(w http.ResponseWriter, r *http.Request, h *models.Host) {
	var progress models.HostProgress
	a.read(r, &progress)
	stages := a.stages[*h.ID]
	if len(stages) == 0 || stages[len(stages)-1] != progress.CurrentStage {
		a.stages[*h.ID] = append(stages, progress.CurrentStage)
	}
	h.Progress.CurrentStage, h.Progress.ProgressInfo = progress.CurrentStage, progress.ProgressInfo
	switch progress.CurrentStage {
	case models.HostStageFailed:
		h.Status, h.StatusInfo = conv.Pointer(models.HostStatusError), conv.Pointer(progress.ProgressInfo)
		a.status = models.ClusterStatusError
	case models.HostStageDone:
		h.Status = conv.Pointer(models.HostStatusInstalled)
		a.finalizeWhenInstalled()
	default:
		if *h.Status == models.HostStatusInstalling {
			h.Status = conv.Pointer(models.HostStatusInstallingInProgress)
		}
	}
	if a.afterStage != nil {
		a.afterStage(h)
	}
	a.answer(w, http.StatusOK, nil)
}

func (a *appliance) finalizeWhenInstalled() {
	for _, h := range a.hosts {
		if *h.Status != models.HostStatusInstalled {
			return
		}
	}
	a.status = models.ClusterStatusFinalizing
}

func (a *appliance) receiveLogs(w http.ResponseWriter, r *http.Request, _ *models.Host) {
	file, header, err := r.FormFile("upfile")
	if assert.NoError(a.t, err) {
		assert.Positive(a.t, header.Size)
		assert.NoError(a.t, file.Close())
	}
	kind := r.URL.Query().Get("logs_type")
	if kind == string(models.LogsTypeHost) {
		assert.NotEmpty(a.t, r.URL.Query().Get("host_id"))
		assert.NotEmpty(a.t, r.URL.Query().Get("infra_env_id"))
	}
	a.logs[kind]++
	a.answer(w, http.StatusNoContent, nil)
}
