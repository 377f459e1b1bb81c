package appliance_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	httptransport "github.com/go-openapi/runtime/client"
	"github.com/openshift/assisted-service/client"
	"github.com/stretchr/testify/require"

	"landfall/web/api"
)

// responseLog records the statuses that each operation returned, separately for the upstream client
// and other clients.
type responseLog struct {
	routes []route // paths without parameters first
	mu     sync.Mutex
	seen   map[sentResponse]bool
}

// sentResponse is a status that an operation returned to the upstream client or to another client.
type sentResponse struct {
	operation string
	status    int
	upstream  bool
}

type route struct {
	id, method string
	segments   []string
}

func newResponseLog() *responseLog {
	l := &responseLog{seen: make(map[sentResponse]bool)}
	for _, operation := range slices.Concat(api.Operations(), api.Additions()) {
		l.routes = append(l.routes, route{operation.ID, operation.Method, strings.Split(api.BasePath+operation.Path,
			"/")})
	}
	slices.SortStableFunc(l.routes, func(a, b route) int {
		return strings.Count(strings.Join(a.segments, "/"), ":") - strings.Count(strings.Join(b.segments, "/"), ":")
	})
	return l
}

func (r route) fits(method string, segments []string) bool {
	if r.method != method || len(r.segments) != len(segments) {
		return false
	}
	for i, segment := range r.segments {
		if !strings.HasPrefix(segment, ":") && segment != segments[i] {
			return false
		}
	}
	return true
}

func (l *responseLog) record(request *http.Request, status int, upstream bool) {
	segments := strings.Split(request.URL.Path, "/")
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, route := range l.routes {
		if route.fits(request.Method, segments) {
			l.seen[sentResponse{route.id, status, upstream}] = true
			return
		}
	}
}

// recordingTransport records its responses in a responseLog.
type recordingTransport struct {
	responseLog *responseLog
	upstream    bool
}

func (n recordingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(request)
	if err == nil {
		n.responseLog.record(request, response.StatusCode, n.upstream)
	}
	return response, err
}

// startRecordedAppliance is startAppliance with a recording upstream client.
func startRecordedAppliance(t *testing.T, l *responseLog) *testAppliance {
	t.Helper()
	d := startAppliance(t)
	base, err := url.Parse(d.url)
	require.NoError(t, err)
	d.AssistedInstall = client.New(client.Config{
		URL:       &url.URL{Scheme: base.Scheme, Host: base.Host, Path: client.DefaultBasePath},
		Transport: recordingTransport{l, true}, AuthInfo: httptransport.PassThroughAuth,
	})
	return d
}

// documentedStatuses returns the statuses of each operation from the API's own description, success
// first.
func documentedStatuses(t *testing.T) map[string][]int {
	t.Helper()
	description, err := api.OpenAPI("test")
	require.NoError(t, err)
	text, err := json.Marshal(description)
	require.NoError(t, err)
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string         `json:"operationId"`
			Responses   map[string]any `json:"responses"`
		} `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(text, &document))
	found := make(map[string][]int)
	for _, methods := range document.Paths {
		for _, operation := range methods {
			for code := range operation.Responses {
				status, err := strconv.Atoi(code)
				require.NoError(t, err)
				found[operation.OperationID] = append(found[operation.OperationID], status)
			}
			slices.Sort(found[operation.OperationID])
		}
	}
	return found
}

// impossibleResponse describes documented responses that no request can cause, with the reason.
type impossibleResponse struct {
	status     int
	operations []string // nil means all operations
	reason     string
}

// impossibleResponses returns the documented responses that a running appliance never sends.
func impossibleResponses() []impossibleResponse {
	return []impossibleResponse{
		{401, nil, "there is no sign-in: whoever reaches the appliance may use it"},
		{403, nil, "there is no sign-in; only signed links can be rejected with 403, see " +
			"TestInstallationFiles_directAndSignedLinks"},
		{500, nil, "an error of the appliance itself; the tests of bad input show that no request causes one"},
		{501, nil, "every operation is implemented, see TestOperations_areServed"},
		{503, nil,
			"only while the disk or the mirror fails: TestFullDisk_databaseKeepsNoPartialChange"},
		{400, []string{"v2InstallCluster", "v2DeregisterHost", "v2GetIgnoredValidations", "V2GetClusterUISettings"},
			"the request has no body, and invalid IDs are rejected with 422"},
		{400, []string{"V2GetPresignedForClusterCredentials"},
			"the name of a missing file does not fit the schema: 422"},
		{400, []string{"GetInfraEnvDownloadURL", "UnbindHost", "v2ListSupportedOpenshiftVersions"},
			"every request that fits the schema is valid"},
		{400, []string{"V2UpdateClusterUISettings"}, "any text is stored unchanged"},
		{400, []string{"V2GetBundle"}, "the ID of a missing bundle is 404"},
		{404, []string{"v2ListEvents"},
			"events of deleted objects remain readable, so an unknown ID selects no events"},
		{404, []string{"GetSupportedArchitectures", "GetSupportedFeatures"},
			"versions that are not configured also have support levels"},
		{409, []string{
			"V2ListClusterManifests", "v2DownloadClusterManifest", "V2UpdateClusterManifest", "V2DeleteClusterManifest",
		}, "manifests can be read in each state; a late change is 400, as in the Assisted Installer"},
		{409, []string{"V2UploadLogs", "v2UpdateClusterLogsProgress", "v2UpdateHostLogsProgress"},
			"logs are accepted in each state"},
		{409, []string{"v2ReportMonitoredOperatorStatus"}, "the controller's reports are accepted in each state"},
		{409, []string{"RegisterInfraEnv", "UpdateInfraEnv", "v2DownloadInfraEnvFiles", "DownloadMinimalInitrd"},
			"infra-envs have no states"},
		{409, []string{"v2RegisterHost"},
			"an agent that receives 409 stops for good; if a cluster accepts no hosts now, it receives 503 and tries " +
				"again"},
		{409, []string{"v2TriggerEvent"}, "events are accepted in each state"},
		{422, []string{
			"V2GetClusterDefaultConfig", "v2ListComponentVersions", "V2ListManagedDomains", "v2ListReleaseSources",
			"V2ListSupportedOperators",
			"V2ListOperatorProperties", "V2GetBundle", "v2ListSupportedOpenshiftVersions", "v2GetOpenAPI",
		}, "no parameter of the operation has a format"},
	}
}

// undocumentedStatuses returns statuses of an operation that upstream's description lacks: 405 for
// other methods of the path, 400 for bodies with unknown fields or without JSON, and 404 for the
// hosts of a missing infra-env.
func undocumentedStatuses(operation string) []int {
	answers := []int{http.StatusMethodNotAllowed, http.StatusBadRequest}
	if operation == "v2ListHosts" {
		answers = append(answers, http.StatusNotFound)
	}
	return answers
}

// expectedStatuses returns the statuses that each operation must return: all documented ones except
// the impossible ones.
func expectedStatuses(t *testing.T) map[string][]int {
	t.Helper()
	answers := documentedStatuses(t)
	for _, never := range impossibleResponses() {
		operations := never.operations
		if operations == nil {
			operations = slices.Collect(maps.Keys(answers))
		}
		for _, id := range operations {
			if never.operations != nil {
				require.Contains(t, answers[id], never.status,
					"%s: an answer that is not documented needs no reason (%s)", id, never.reason)
			}
			answers[id] = slices.DeleteFunc(answers[id], func(status int) bool { return status == never.status })
		}
	}
	return answers
}

// requireComplete requires that each operation returned each expected status, its success to the
// upstream client, and no other status.
func (l *responseLog) requireComplete(t *testing.T, byHand []string) {
	t.Helper()
	var lacking []string
	want := expectedStatuses(t)
	for _, id := range slices.Sorted(maps.Keys(want)) {
		for _, status := range want[id] {
			upstream := l.seen[sentResponse{id, status, true}]
			switch {
			case status < 300 && !upstream && !slices.Contains(byHand, id):
				lacking = append(lacking, fmt.Sprintf("%s: the upstream client has not seen its success %d", id,
					status))
			case !upstream && !l.seen[sentResponse{id, status, false}]:
				lacking = append(lacking, fmt.Sprintf("%s: no test of its answer %d", id, status))
			}
		}
	}
	answers := documentedStatuses(t)
	for was := range l.seen {
		if !slices.Contains(answers[was.operation], was.status) && !slices.Contains(undocumentedStatuses(was.operation),
			was.status) {
			lacking = append(lacking, fmt.Sprintf("%s: it answered %d, which is not documented", was.operation,
				was.status))
		}
	}
	require.Empty(t, lacking, "%s", strings.Join(lacking, "\n"))
	for _, never := range impossibleResponses() {
		for _, id := range never.operations {
			require.False(t, l.seen[sentResponse{id, never.status, true}] ||
				l.seen[sentResponse{id, never.status, false}],
				"%s answered %d, which is listed as impossible: %s", id, never.status, never.reason)
		}
	}
}
