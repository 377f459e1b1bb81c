package hosted_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/provider"
	"landfall/appliance/hosted/record"
	"landfall/store"
)

// faults are faults of requests over HTTP, with their numbers (see
// appliance/hosted/faults_test.go). Each returns the management cluster with its hosted clusters,
// of which nobody deletes one.
var faults = []struct {
	name string
	run  func(t *testing.T, s *site) *managed
}{
	{"35 10,000 clusters in search and paging (size=0, -1, nextLink stable under inserts)", tenThousandClusters},
	{"42 literal seed commands, each, with mixed-case ids and the $? typo", linesAsTheyStand},
	{"43 unknown api-version, missing, each known one", badRequests},
	{"44 preflight with template expressions", preflight},
}

func TestFaults(t *testing.T) {
	for _, test := range faults {
		t.Run(test.name, func(t *testing.T) { test.run(t, newSite(t)).requireDeleted() })
	}
}

// Ten thousand clusters in searches and pages, while others are made.
func tenThousandClusters(t *testing.T, s *site) *managed {
	const clusters = 10_000
	create := func(name, group string) {
		_, err := s.CreateCluster(t.Context(), provider.Caller{Name: "ana", Version: arm.DefaultVersion},
			arm.ID{Subscription: s.subscription, Group: group, Cluster: name}, arm.Document{"location": "site"}, nil)
		require.NoError(t, err)
	}
	for i := range clusters {
		create(fmt.Sprintf("c%05d", i), fmt.Sprintf("rg%d", i/2))
	}
	list := func(query string) answer { return s.do("GET", "/api/clusters_mgmt/v1/clusters?"+query, "") }
	none := list("size=0")
	require.EqualValues(t, clusters, none.at(t, "total"))
	require.Empty(t, none.at(t, "items"))
	require.Equal(t, http.StatusBadRequest, list("size=-2").StatusCode)
	require.Len(t, list("size=500&page=20").at(t, "items"), 500)
	require.Empty(t, list("size=500&page=21").at(t, "items"))
	found := list("search=" + url.QueryEscape("azure.resource_group_name='RG77' and azure.resource_name='c00155'"))
	require.EqualValues(t, 1, found.at(t, "total"))

	next := "/subscriptions/" + s.subscription + "/providers/Microsoft.RedHatOpenShift/hcpOpenShiftClusters" + version
	seen := map[string]int{}
	for page := 0; next != ""; page++ {
		answer := s.do("GET", next, "")
		for _, value := range answer.at(t, "value").([]any) {
			seen[value.(map[string]any)["name"].(string)]++
		}
		if page%100 == 0 {
			create(fmt.Sprintf("n%d", page), "rg0")
		}
		link, _ := answer.json(t)["nextLink"].(string)
		next = strings.TrimPrefix(link, s.server.URL)
	}
	for i := range clusters {
		require.Equal(t, 1, seen[fmt.Sprintf("c%05d", i)], "each cluster once")
	}
	management := s.manage(controlplane.Flat)
	create("last", "rg0")
	return management
}

// Each row is a request with its status and the code of its error.
func badRequests(t *testing.T, s *site) *managed {
	management := s.manage(controlplane.Flat)
	s.put("edge1")
	id := s.resourceID("edge1")
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		code                     string
		headers                  []string
	}{
		{"no version", "GET", id, "", 400, "InvalidParameter", nil},
		{"unknown version", "GET", id + "?api-version=2020-01-01", "", 400, "InvalidResourceType", nil},
		{"no resource", "GET", s.resourceID("absent") + version, "", 404, "ResourceNotFound", nil},
		{"no route", "GET", "/subscriptions/x/y" + version, "", 404, "NotFound", nil},
		{"media type", "PUT", id + version, "{}", 415, "UnsupportedMediaType", []string{"Content-Type", "text/plain"}},
		{"no JSON", "PUT", id + version, "{", 400, "InvalidRequestContent", nil},
		{"several errors", "PUT", s.resourceID("e2") + version, `{"location":"a","x":1,"y":1}`, 400,
			"MultipleErrorsOccurred", nil},
		{"bad name", "PUT", s.resourceID("1a") + version, `{"location":"a"}`, 400, "InvalidResourceName", nil},
		{"bad group", "GET", strings.Replace(id, "Hall-2", "a.", 1) + version, "", 400, "InvalidResourceGroupName",
			nil},
		{"bad subscription", "GET", strings.Replace(id, s.subscription, "x", 1) + version, "", 400,
			"InvalidSubscriptionID", nil},
		{"unknown subscription", "GET", strings.Replace(id, s.subscription, "11111111-1111-1111-1111-111111111111", 1) +
			version, "", 400, "InvalidSubscriptionState", nil},
		{"absent patch", "PATCH", s.resourceID("e2") + version, `{}`, 404, "ResourceNotFound", nil},
		{"bad system data", "PUT", s.resourceID("e2") + version, `{"location":"a"}`, 400, "InvalidRequestContent",
			[]string{"X-Ms-Arm-Resource-System-Data", "{"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer := s.do(c.method, c.path, c.body, c.headers...)
			require.Equal(t, c.status, answer.StatusCode, "%s", answer.body)
			require.Equal(t, c.code, answer.at(t, "error", "code"))
			require.Equal(t, c.code, answer.Header.Get("X-Ms-Error-Code"))
		})
	}
	for _, known := range []string{"2024-06-10-preview", "2025-12-23-preview", "2026-06-30-preview",
		"2026-09-01-preview"} {
		require.Equal(t, http.StatusOK, s.do("GET", id+"?api-version="+known, "").StatusCode, known)
	}
	return management
}

// A check before a creation makes nothing.
func preflight(t *testing.T, s *site) *managed {
	management := s.manage(controlplane.Flat)
	path := "/subscriptions/" + s.subscription +
		"/resourcegroups/rg/providers/Microsoft.RedHatOpenShift/deployments/d/" +
		"preflight" + version
	const cluster = `"type":"Microsoft.RedHatOpenShift/hcpOpenShiftClusters","apiVersion":"2024-06-10-preview"`
	for name, c := range map[string]struct{ resources, status string }{
		"valid cluster":     {`{"name":"a","location":"b",` + cluster + `}`, "Succeeded"},
		"with its pool":     {`{"name":"a","location":"b",` + cluster + `},{"name":"a/np","location":"b","type":"Microsoft.RedHatOpenShift/hcpOpenShiftClusters/nodePools","apiVersion":"2024-06-10-preview","properties":{"platform":{"vmSize":"large"}}}`, "Succeeded"},
		"invalid cluster":   {`{"name":"a","location":"b","x":1,` + cluster + `}`, "Failed"},
		"expression":        {`{"name":"[parameters('n')]","location":"b","x":1,` + cluster + `}`, "Succeeded"},
		"unknown type":      {`{"name":"a","type":"Microsoft.Storage/x","apiVersion":"2024-06-10-preview"}`, "Succeeded"},
		"unknown version":   {`{"name":"a","type":"Microsoft.RedHatOpenShift/hcpOpenShiftClusters","apiVersion":"1"}`, "Succeeded"},
		"not an object":     {`5`, "Succeeded"},
		"without a type":    {`{"name":"a","x":1,"apiVersion":"2024-06-10-preview"}`, "Succeeded"},
		"without a name":    {`{"location":"b","x":1,` + cluster + `}`, "Succeeded"},
		"names of three":    {`{"name":"a/b/c","x":1,` + cluster + `}`, "Succeeded"},
		"two are invalid":   {`{"name":"a","x":1,` + cluster + `},{"name":"b","x":1,` + cluster + `}`, "Failed"},
		"pool without home": {`{"name":"z/np","location":"b","type":"Microsoft.RedHatOpenShift/hcpOpenShiftClusters/nodePools","apiVersion":"2024-06-10-preview","properties":{"platform":{"vmSize":"large"}}}`, "Failed"},
	} {
		answer := s.do("POST", path, `{"resources":[`+c.resources+`]}`)
		require.Equal(t, http.StatusOK, answer.StatusCode, name)
		require.Equal(t, c.status, answer.at(t, "status"), "%s: %s", name, answer.body)
	}
	list := s.do("GET",
		"/subscriptions/"+s.subscription+"/providers/Microsoft.RedHatOpenShift/hcpOpenShiftClusters"+version, "")
	require.Empty(t, list.at(t, "value"), "a check makes nothing")
	s.put("edge1")
	return management
}

// The client gets the answer also if a row can't be read.
func TestRequests_damagedNodePool(t *testing.T) {
	s := newSite(t)
	s.manage(controlplane.Flat)
	s.put("edge1")
	broken := json.RawMessage("5") // can't be read, like a row on a damaged disk
	require.NoError(t, s.DB.Update(t.Context(), func(tx *store.Tx) error {
		return record.EachClusterID(tx, func(cid string) error {
			return store.NewBucket[json.RawMessage]("hosted-node-pools", 1).Put(tx, cid+"/workers", &broken)
		})
	}))
	answer := s.do("GET", s.resourceID("edge1")+"/nodePools/workers"+version, "")
	require.Equal(t, http.StatusInternalServerError, answer.StatusCode)
	require.Equal(t, "InternalServerError", answer.at(t, "error", "code"))
}
