package appliance

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/go-openapi/swag/conv"
	"github.com/google/uuid"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/record"
	"landfall/store"
	"landfall/web/console"
)

func (g *guarded) hosts(t *testing.T, query, as string) []console.Host {
	t.Helper()
	w := g.request(t, http.MethodGet, console.HostsRoute+query, "", g.callers[as])
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	var answer struct{ Hosts []console.Host }
	require.NoError(t, json.NewDecoder(w.Body).Decode(&answer))
	return answer.Hosts
}

func (g *guarded) missingHosts(t *testing.T, as string) console.Arrivals {
	t.Helper()
	w := g.request(t, http.MethodGet, console.BasePath+"/missing-hosts", "", g.callers[as])
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	var answer console.Arrivals
	require.NoError(t, json.NewDecoder(w.Body).Decode(&answer))
	return answer
}

// register registers a host and returns the status.
func (g *guarded) register(t *testing.T, infraEnv, host, as string) int {
	t.Helper()
	return g.request(t, http.MethodPost, "/api/assisted-install/v2/infra-envs/"+infraEnv+"/hosts", `{"host_id": "`+host+`"}`,
		g.callers[as]).Code
}

func TestHosts_listsHostsInTheScope(t *testing.T) {
	g := newGuarded(t)
	require.Empty(t, g.hosts(t, "", "viewer"))
	id, other := uuid.NewString(), uuid.NewString()
	require.Equal(t, http.StatusCreated, g.register(t, g.env, id, "agent"))
	require.Equal(t, http.StatusCreated, g.register(t, g.env, other, "agent"))
	hosts := g.hosts(t, "", "viewer")
	require.Len(t, hosts, 2)
	require.Equal(t, "own", hosts[0].ClusterName)
	require.Equal(t, "own", hosts[0].InfraEnvName)
	require.Equal(t, g.cluster, hosts[0].InfraEnvCluster)
	require.NotEmpty(t, hosts[0].Status)
	require.NotEmpty(t, hosts[0].LastContact)
	require.Len(t, g.hosts(t, "", "limited"), 2)
	require.Empty(t, g.hosts(t, "", "limited to others"))
	hosts = g.hosts(t, "?host_id="+id, "viewer")
	require.Len(t, hosts, 1)
	require.Equal(t, id, hosts[0].ID)
	require.Len(t, g.hosts(t, "?cluster_id="+g.cluster, "viewer"), 2)
	require.Empty(t, g.hosts(t, "?infra_env_id="+uuid.NewString(), "viewer"))
}

func TestMissingHosts_explainsRefusals(t *testing.T) {
	g := newGuarded(t)
	findings := g.missingHosts(t, "viewer").Findings
	require.Len(t, findings, 1)
	require.Contains(t, findings[0].Sentence, "No machine has read the image of infra-env own")

	id := uuid.NewString()
	require.Equal(t, http.StatusUnauthorized, g.register(t, g.env, id, "nobody"))
	require.Equal(t, http.StatusNotFound, g.register(t, uuid.NewString(), uuid.NewString(), "admin"))
	answer := g.missingHosts(t, "viewer")
	require.Len(t, answer.Findings, 3)
	require.Contains(t, answer.Findings[0].Advice+answer.Findings[1].Advice, "no valid token")
	require.Contains(t, answer.Findings[0].Sentence+answer.Findings[1].Sentence, "There is no infra-env")
	require.Contains(t, answer.Lines[0].Command, g.urls[0])

	findings = g.missingHosts(t, "limited").Findings
	require.Len(t, findings, 2, "without the refusal of an unknown infra-env")
	require.Empty(t, g.missingHosts(t, "limited to others").Findings)

	require.Equal(t, http.StatusCreated, g.register(t, g.env, id, "agent"))
	require.Len(t, g.missingHosts(t, "viewer").Findings, 1, "the host is not missing any more")
}

func TestMissingHosts_refusedByInstalledCluster(t *testing.T) {
	g := newGuarded(t)
	require.NoError(t, g.db.Update(t.Context(), func(tx *store.Tx) error {
		row, err := record.Clusters.Get(tx, g.cluster)
		if err != nil {
			return err
		}
		row.API.Status = conv.Pointer(models.ClusterStatusInstalled)
		return record.Clusters.Put(tx, g.cluster, row)
	}))
	require.Equal(t, http.StatusServiceUnavailable, g.register(t, g.env, uuid.NewString(), "agent"))
	require.Contains(t, g.missingHosts(t, "viewer").Findings[0].Advice, "landfall cluster add-hosts own.")
}
