package api_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

// searches lists the operations that filter and page by their query.
func searches(ids map[string]string) []string {
	return []string{
		"/v2/events", "/v2/clusters", "/v2/infra-envs", "/v2/clusters/" + ids["cluster_id"] + "/hosts",
		"/v2/openshift-versions",
		"/v2/operators/bundles", "/v2/support-levels/features", "/v2/support-levels/features/detailed",
		"/v2/clusters/" + ids["cluster_id"] + "/manifests", "/v2/clusters/" + ids["cluster_id"] +
			"/monitored-operators",
	}
}

// FuzzSearchQuery asserts that the response to every query of a list is a list, an object or an
// error.
func FuzzSearchQuery(f *testing.F) {
	for _, seed := range []string{
		"cluster_id=x&limit=1", "limit=-1", "limit=99999999999999999999",
		"offset=9223372036854775807&limit=9223372036854775807", "order=sideways", "severities=info,,warning",
		"host_ids=,%2C,", "message=%25%5B(%5C", "message=%ff%00", "categories=user&categories=metrics",
		"deleted_hosts=maybe", "cluster_level=true&cluster_level=false",
		"role=master&status=%0a", "with-inventory=1", "version=4&only_latest=yes",
		"openshift_version=4.20&platform_type=moon", "ams_subscription_ids=a,b", "%zz=1;a", "=&=&&",
	} {
		f.Add(seed)
	}
	s := newServed(f)
	ids := s.ids()
	f.Fuzz(func(t *testing.T, query string) {
		for _, path := range searches(ids) {
			recorder := (&served{t, s.server, s.db}).send(http.MethodGet, path+"?"+strings.ReplaceAll(query, "?",
				"%3f"), nil, nil)
			require.Contains(t, []int{http.StatusOK, http.StatusBadRequest, http.StatusNotFound,
				http.StatusUnprocessableEntity}, recorder.Code, "%s: %s", path, recorder.Body)
			require.True(t, json.Valid(recorder.Body.Bytes()), path)
		}
	})
}

// TestEvents_pagesAndCounts checks that the pages of a list contain every event once, in the
// requested order, for every page size. The headers count all selected events and not only those of
// the page.
func TestEvents_pagesAndCounts(t *testing.T) {
	s := newServed(t)
	ids := s.ids()
	for i := range 25 {
		severity := []string{"info", "warning", "error", "critical"}[i%4]
		text, err := json.Marshal(object{"name": "n", "severity": severity, "message": "Number " + strconv.Itoa(i) +
			" came.", "event_time": "2026-01-02T03:04:05Z", "cluster_id": ids["cluster_id"]})
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, s.send(http.MethodPost, "/v2/events", nil, text).Code)
	}
	page := func(query string) ([]string, http.Header) {
		recorder := s.send(http.MethodGet, "/v2/events?cluster_id="+ids["cluster_id"]+"&"+query, nil, nil)
		require.Equal(t, http.StatusOK, recorder.Code, recorder.Body)
		var events []models.Event
		require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &events))
		messages := []string{}
		for _, event := range events {
			messages = append(messages, *event.Message)
		}
		return messages, recorder.Header()
	}
	for _, order := range []string{"ascending", "descending"} {
		all, header := page("order=" + order)
		require.Equal(t, strconv.Itoa(len(all)), header.Get("Event-Count"))
		for _, length := range []int{1, 7, 10, 100} {
			var joined []string
			for offset := 0; offset < len(all); offset += length {
				messages, header := page("order=" + order + "&limit=" + strconv.Itoa(length) + "&offset=" +
					strconv.Itoa(offset))
				require.Equal(t, strconv.Itoa(len(all)), header.Get("Event-Count"))
				joined = append(joined, messages...)
			}
			require.Equal(t, all, joined, "%s by %d", order, length)
		}
	}
	few, header := page("severities=critical,error&limit=2")
	require.Len(t, few, 2)
	require.Equal(t, "12", header.Get("Event-Count"))
	require.Equal(t, []string{"6", "6"}, []string{header.Get("Severity-Count-Critical"),
		header.Get("Severity-Count-Error")})
	require.NotEqual(t, "0", header.Get("Severity-Count-Warning"), "the headers count the events of all severities")
	found, _ := page("message=number%2017")
	require.Equal(t, []string{"Number 17 came."}, found)
	beyond, header := page("offset=1000")
	require.Empty(t, beyond)
	require.NotEqual(t, "0", header.Get("Event-Count"))
}
