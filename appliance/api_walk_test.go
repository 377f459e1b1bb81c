package appliance_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/web/api"
	"landfall/web/operation"
)

// TestOperations_areServed calls all operations in the spellings of the path that clients use. Each
// operation must exist with its method.
func TestOperations_areServed(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster()
	env := d.infraEnv(&cluster)
	host := d.host(env)
	fill := strings.NewReplacer(
		":cluster_id", cluster.String(), ":infra_env_id", env.String(), ":host_id", host.String(),
		":validation_id", "container-images-available", ":operator_name", "lvm", ":id", "virtualization",
	)
	root := strings.TrimSuffix(d.url, "/v2")
	for _, operation := range api.Operations() {
		if operation.Method == http.MethodDelete {
			continue // the last form
		}
		served(t, operation, root+fill.Replace(operation.Path))
	}
	for _, operation := range api.Operations() {
		if operation.Method == http.MethodDelete {
			served(t, operation, root+strings.NewReplacer(cluster.String(), missingID().String(), env.String(),
				missingID().String()).Replace(fill.Replace(operation.Path)))
		}
	}
}

func served(t *testing.T, operation operation.Operation, url string) {
	t.Helper()
	for _, form := range []string{url, url + "/", strings.Replace(url, "/v2/", "/v2//", 1)} {
		answer := call(t, operation.Method, form, nil)
		require.NotContains(t, []int{http.StatusMethodNotAllowed, http.StatusNotImplemented}, answer.status,
			"%s %s: %s", operation.ID, form, answer.body)
		require.Less(t, answer.status, http.StatusInternalServerError, "%s %s: %s", operation.ID, form, answer.body)
		if answer.status == http.StatusNotFound {
			require.NotEqual(t, "Not Found", answer.reason(t), "%s %s has a route", operation.ID, form)
		}
	}
}
