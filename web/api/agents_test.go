package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/google/uuid"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/web/api"
)

func TestStepReply_connectivityOfTenThousandHosts(t *testing.T) {
	a := newServed(t).newAgent()
	require.Equal(t, http.StatusNoContent, a.reply(models.StepTypeInventory, "inventory-00000001",
		machine("node")).Code)
	report := &models.ConnectivityReport{}
	for i := range 10_000 {
		report.RemoteHosts = append(report.RemoteHosts, &models.ConnectivityRemoteHost{
			L3Connectivity: []*models.L3Connectivity{{OutgoingNic: "eth0", RemoteIPAddress: fmt.Sprintf("10.%d.%d.1",
				i>>8, i&255), Successful: true, AverageRTTMs: 0.5}},
		})
		report.RemoteHosts[i].HostID = strfmt.UUID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
	}
	require.Equal(t, http.StatusNoContent, a.reply(models.StepTypeConnectivityCheck, "connectivity-check-00000001",
		report).Code)
	require.NotEmpty(t, a.steps(""))
	before := a.db.Revision()
	require.Equal(t, http.StatusNoContent, a.reply(models.StepTypeConnectivityCheck, "connectivity-check-00000002",
		report).Code)
	require.Equal(t, before, a.db.Revision(), "a repeated report changes nothing")

	recorder := a.reply(models.StepTypeConnectivityCheck, "connectivity-check-00000003", strings.Repeat(" ", 5<<20))
	require.Equal(t, http.StatusRequestEntityTooLarge, recorder.Code,
		"a body above the limit is rejected: %s", recorder.Body)
	require.Equal(t, before, a.db.Revision())
}

func TestStepReply_unsolicitedChangesNothing(t *testing.T) {
	a := newServed(t).newAgent()
	require.Equal(t, []models.StepType{models.StepTypeInventory}, a.steps(""))
	for kind, output := range map[models.StepType]any{
		models.StepTypeInstallationDiskSpeedCheck: models.DiskSpeedCheckResponse{Path: "/dev/sda", IoSyncDuration: 4},
		models.StepTypeContainerImageAvailability: models.ContainerImageAvailabilityResponse{},
		models.StepTypeFreeNetworkAddresses:       models.FreeNetworksAddresses{{Network: "192.0.2.0/24"}},
		models.StepTypeVerifyVips:                 models.VerifyVipsResponse{},
		models.StepTypeStopInstallation:           "",
		models.StepTypeLogsGather:                 "",
	} {
		recorder := a.reply(kind, string(kind)+"-never", output)
		require.Equal(t, http.StatusNoContent, recorder.Code, "%s: %s", kind, recorder.Body)
		require.Equal(t, models.HostStatusDiscovering, *a.host().Status, kind)
	}
	recorder := a.reply("make-coffee", "make-coffee-1", "")
	require.Equal(t, http.StatusUnprocessableEntity, recorder.Code, recorder.Body)
	failed := a.post(a.at()+"/"+a.id+"/instructions", object{"step_type": "install", "step_id": "install-never",
		"exit_code": 1, "error": "no"})
	require.Less(t, failed.Code, 500, failed.Body)
	require.Equal(t, models.HostStatusDiscovering, *a.host().Status,
		"a host that is not being installed cannot fail")
}

func TestStepReply_duplicateIsWrittenOnce(t *testing.T) {
	a := newServed(t).newAgent()
	for kind, output := range map[models.StepType]any{
		models.StepTypeNtpSynchronizer: models.NtpSynchronizationResponse{NtpSources: []*models.NtpSource{
			{SourceName: "10.0.0.1", SourceState: models.SourceStateSynced}}},
		models.StepTypeDomainResolution: models.DomainResolutionResponse{
			Resolutions: []*models.DomainResolutionResponseDomain{}},
	} {
		require.Equal(t, http.StatusNoContent, a.reply(kind, string(kind)+"-1", output).Code, kind)
		before := a.db.Revision()
		for range 3 {
			require.Equal(t, http.StatusNoContent, a.reply(kind, string(kind)+"-1", output).Code, kind)
		}
		require.Equal(t, before, a.db.Revision(), kind)
	}
	require.Equal(t, http.StatusNoContent, a.reply(models.StepTypeInventory, "inventory-1", machine("node")).Code)
	before := a.db.Revision()
	require.Equal(t, http.StatusNoContent, a.reply(models.StepTypeInventory, "inventory-1", machine("node")).Code)
	require.Equal(t, before, a.db.Revision())
}

func TestStepReply_outOfOrder(t *testing.T) {
	s := newServed(t)
	reports := []struct {
		kind   models.StepType
		output any
	}{
		{models.StepTypeInventory, machine("node")},
		{models.StepTypeNtpSynchronizer,
			models.NtpSynchronizationResponse{NtpSources: []*models.NtpSource{{SourceName: "10.0.0.1",
				SourceState: models.SourceStateSynced}}}},
		{models.StepTypeConnectivityCheck, models.ConnectivityReport{}},
	}
	end := func(order []int) []string {
		a := s.newAgent()
		for _, i := range order {
			require.Equal(t, http.StatusNoContent, a.reply(reports[i].kind, string(reports[i].kind)+"-1",
				reports[i].output).Code)
		}
		host := a.host()
		return []string{*host.Status, host.RequestedHostname, host.InstallationDiskPath, host.NtpSources,
			host.Connectivity, validationStatuses(t, host.ValidationsInfo)}
	}
	inOrder := end([]int{0, 1, 2})
	for _, order := range [][]int{{2, 1, 0}, {1, 2, 0}, {2, 0, 1}} {
		require.Equal(t, inOrder, end(order), "%v", order)
	}
}

func TestStepReply_beforeRestartIsReplaced(t *testing.T) {
	a := newServed(t).newAgent()
	old, fresh := machine("before"), machine("after")
	fresh.Disks[0].Path, fresh.Disks[0].Name = "/dev/sdb", "sdb"
	require.Equal(t, http.StatusNoContent, a.reply(models.StepTypeInventory, "inventory-00000001", old).Code)
	require.Equal(t, http.StatusCreated, a.register(agentImage))
	require.Equal(t, models.HostStatusDiscovering, *a.host().Status)
	require.Equal(t, http.StatusNoContent, a.reply(models.StepTypeInventory, "inventory-00000001", old).Code,
		"an agent that receives an error would poll for ever")
	require.Equal(t, http.StatusNoContent, a.reply(models.StepTypeInventory, "inventory-00000002", fresh).Code)
	require.Equal(t, "/dev/sdb", a.host().InstallationDiskPath)
	var found models.Inventory
	require.NoError(t, json.Unmarshal([]byte(a.host().Inventory), &found))
	require.Equal(t, "after", found.Hostname)

	progress, err := json.Marshal(object{"current_stage": models.HostStageRebooting})
	require.NoError(t, err)
	require.Less(t, a.send(http.MethodPut, a.at()+"/"+a.id+"/progress", nil, progress).Code, 500)
	require.Empty(t, a.host().Progress.CurrentStage, "a stage of a former installation is ignored")
}

func TestHostProgress_newerStage(t *testing.T) {
	a := newServed(t).newAgent()
	report := func(stage string) int {
		body, err := json.Marshal(object{"current_stage": stage})
		require.NoError(t, err)
		return a.send(http.MethodPut, a.at()+"/"+a.id+"/progress", nil, body).Code
	}
	require.Equal(t, report("Writing image to disk"), report("Copying registry data to disk"))
	require.Equal(t, http.StatusUnprocessableEntity, report("Copying"))
}

func TestHostRegistration_deletedHostComesBack(t *testing.T) {
	a := newServed(t).newAgent()
	require.Equal(t, http.StatusNoContent, a.reply(models.StepTypeInventory, "inventory-1", machine("node")).Code)
	require.Equal(t, http.StatusNoContent, a.send(http.MethodDelete, a.at()+"/"+a.id, nil, nil).Code)
	before := a.db.Revision()
	require.Equal(t, http.StatusNotFound, a.reply(models.StepTypeInventory, "inventory-1", machine("node")).Code)
	require.Equal(t, http.StatusNotFound, a.send(http.MethodGet, a.at()+"/"+a.id+"/instructions", nil, nil).Code)
	require.Equal(t, before, a.db.Revision(), "late reports do not restore a deleted host")
	require.Equal(t, http.StatusCreated, a.register(agentImage))
	require.Empty(t, a.host().Inventory, "the host registers without its former inventory")
}

func TestStepReply_clockInTheFuture(t *testing.T) {
	a := newServed(t).newAgent()
	require.Equal(t, http.StatusNoContent, a.reply(models.StepTypeInventory, "inventory-1", machine("node")).Code)
	for _, clock := range []string{"4102444800", "9223372036854775807", "-9223372036854775808", "-1", "0", "1"} {
		require.NotEmpty(t, a.steps("&timestamp="+clock), clock)
		require.Contains(t, validationStatuses(t, a.host().ValidationsInfo), "time-synced-between-host-and-service ",
			clock)
	}
	require.NotEmpty(t, a.steps("&timestamp=4102444800"))
	require.Contains(t, validationStatuses(t, a.host().ValidationsInfo), "time-synced-between-host-and-service failure")
	recorder := a.post("/v2/events", object{"name": "x", "severity": "info", "message": "from the future",
		"event_time": "2199-01-01T00:00:00Z", "host_id": a.id, "infra_env_id": a.env, "cluster_id": a.cluster})
	require.Equal(t, http.StatusCreated, recorder.Code, recorder.Body)
}

func TestAgent_otherVersions(t *testing.T) {
	s := newServed(t)
	ids := s.ids()
	for _, version := range []string{"quay.io/agent:1", "quay.io/agent:99"} {
		a := &agent{s, ids["cluster_id"], ids["infra_env_id"], uuid.NewString()}
		require.Equal(t, http.StatusCreated, a.register(version))
		recorder := a.send(http.MethodGet, a.at()+"/"+a.id+"/instructions?discovery_agent_version="+version, nil, nil)
		require.Equal(t, http.StatusOK, recorder.Code)
		var steps models.Steps
		require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &steps))
		require.Len(t, steps.Instructions, 1)
		require.Equal(t, models.StepTypeUpgradeAgent, steps.Instructions[0].StepType)
		require.Contains(t, steps.Instructions[0].Args[0], agentImage)
		require.Equal(t, http.StatusNoContent, a.reply(models.StepTypeUpgradeAgent, "upgrade-agent-1",
			models.UpgradeAgentResponse{AgentImage: agentImage, Result: models.UpgradeAgentResultSuccess}).Code)
	}
	a := s.newAgent()
	newer := a.post(a.at(), object{"host_id": a.id, "discovery_agent_version": agentImage, "colour": "red",
		"nested": object{"deep": []int{1}}})
	require.Equal(t, http.StatusCreated, newer.Code, "an agent with unknown fields: %s", newer.Body)
	older := a.post(a.at(), object{"host_id": a.id})
	require.Equal(t, http.StatusCreated, older.Code, "an agent without a version: %s", older.Body)
	text, err := json.Marshal(machine("node"))
	require.NoError(t, err)
	inventory := strings.Replace(string(text), "{", `{"quantum_bits": 7,`, 1)
	require.Equal(t, http.StatusNoContent, a.reply(models.StepTypeInventory, "inventory-1", inventory).Code)
}

func TestAgent_foreignIDsAreRefused(t *testing.T) {
	s := newServed(t)
	own, other := s.newAgent(), s.newAgent()
	before := s.db.Revision()
	host := "/v2/infra-envs/" + own.env + "/hosts/" + other.id
	for _, request := range []struct{ method, path, body string }{
		{"GET", host, ""},
		{"PATCH", host, `{"host_name": "stolen"}`},
		{"DELETE", host, ""},
		{"GET", host + "/instructions", ""},
		{"POST", host + "/instructions", `{"step_type": "inventory", "step_id": "x", "output": "{}"}`},
		{"PUT", host + "/progress", `{"current_stage": "Rebooting"}`},
		{"PUT", host + "/logs-progress", `{"logs_state": "collecting"}`},
		{"GET", host + "/ignition", ""},
		{"PATCH", host + "/ignition", `{"config": ""}`},
		{"PATCH", host + "/installer-args", `{"args": []}`},
		{"POST", host + "/actions/bind", `{"cluster_id": "` + own.cluster + `"}`},
		{"POST", host + "/actions/unbind", ""},
		{"POST", host + "/actions/install", ""},
		{"POST", host + "/actions/reset", ""},
		{"PATCH", host + "/actions/reset-validation/container-images-available", ""},
		{"GET", "/v2/infra-env/" + own.env + "/hosts/" + other.id + "/downloads/ignition", ""},
		{"GET", "/v2/clusters/" + own.cluster + "/logs?logs_type=host&host_id=" + other.id, ""},
		{"GET", "/v2/clusters/" + own.cluster + "/downloads/files-presigned?file_name=logs&host_id=" + other.id, ""},
		{"GET", "/v2/clusters/" + other.env, ""},
		{"GET", "/v2/infra-envs/" + other.cluster, ""},
		{"GET", "/v2/infra-envs/" + other.id + "/hosts", ""},
	} {
		recorder := s.send(request.method, request.path, nil, []byte(request.body))
		require.Equal(t, http.StatusNotFound, recorder.Code, "%s %s: %s", request.method, request.path, recorder.Body)
	}
	require.Equal(t, before, s.db.Revision())
	require.Equal(t, other.id, other.host().RequestedHostname)
}

func TestBodyLimit_everyOperation(t *testing.T) {
	s := newServed(t)
	ids := s.ids()
	document := s.description()
	requests := 0
	for path, methods := range document.Paths {
		for method, operation := range methods {
			if operation.RequestBody == nil || operation.OperationID == "V2UploadLogs" {
				continue // a form; TestLogUpload_invalidForm covers it
			}
			before := s.db.Revision()
			body := &endless{left: 100 << 20}
			request := httptest.NewRequest(strings.ToUpper(method), api.BasePath+fill(path, ids), body)
			request.ContentLength = -1
			recorder := httptest.NewRecorder()
			s.server.ServeHTTP(recorder, request)
			require.Equal(t, http.StatusRequestEntityTooLarge, recorder.Code, "%s: %s", operation.OperationID,
				recorder.Body)
			s.requireValidAnswer(operation.OperationID, before, recorder)
			require.Greater(t, body.left, 90<<20, "%s reads no more than its limit", operation.OperationID)
			requests++
		}
	}
	require.GreaterOrEqual(t, requests, 24)
}

var blanks = strings.Repeat(" ", 1<<20)

// endless is a body of the given number of blanks.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.left, len(blanks))
	copy(p[:n], blanks)
	e.left -= n
	return n, nil
}
