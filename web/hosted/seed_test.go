package hosted_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted"
	"landfall/appliance/hosted/bundle"
	"landfall/appliance/hosted/cloudevent"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/record"
	"landfall/appliance/simulate/hypershift"
	"landfall/appliance/simulate/workagent"
	"landfall/store"
	"landfall/web"
	hostedapi "landfall/web/hosted"
)

// seedLines are the lines of the document on a cluster's creation, in its order, as they stand.
// Commands of the shell follow each other in one shell, in which variables such as ${CLUSTER_HREF}
// have the values that the document tells to read from the answers. Commands of kubectl are for the
// management cluster: the page shows them with the cluster's IDs.
var seedLines = []struct {
	line string
	// answer is the program of jq with which the document reads the answer, and gives what it must
	// print. Without it, the line must succeed.
	jq, prints string
	// shown is the line in the page.
	shown string
}{
	{line: `kubectl port-forward -n aro-hcp svc/aro-hcp-frontend 8443:8443`},
	{line: `RESOURCE_ID="%RESOURCE_ID%"`},
	{line: `curl -s localhost:8443${RESOURCE_ID}$?api-version=2024-06-10-preview | jq`, jq: `.error.code`,
		prints: `"InvalidParameter"`},
	{line: `curl -s localhost:8443${RESOURCE_ID}?api-version=2024-06-10-preview | jq`,
		jq: `[(.id | ascii_downcase), .properties.provisioningState, .properties.api.url, .properties.dns.baseDomain]`,
		prints: `["%resource_id%","Succeeded","https://api.edge1.hosted.example.com:%PORT%",` +
			`"hosted.example.com"]`},
	{line: `kubectl port-forward -n cluster-service svc/clusters-service 8001:8000`},
	{line: `export HCP_SUBSCRIPTION_ID=$(echo "$RESOURCE_ID" | cut -d'/' -f3)`},
	{line: `export HCP_RESOURCE_GROUP_NAME=$(echo "$RESOURCE_ID" | cut -d'/' -f5)`},
	{line: `curl -sG http://localhost:8001/api/clusters_mgmt/v1/clusters --data-urlencode "search=azure.subscription_id='$HCP_SUBSCRIPTION_ID' and azure.resource_group_name='$HCP_RESOURCE_GROUP_NAME'" | jq`,
		jq: `.items[] | [.id, .href, .status.state, .azure.subscription_id, .azure.resource_group_name, ` +
			`.azure.resource_name]`,
		prints: `["%CID%","/api/clusters_mgmt/v1/clusters/%CID%","ready","%SUBSCRIPTION%","hall-2","edge1"]`},
	{line: `curl -sG http://localhost:8001/${CLUSTER_HREF}/provision_shard | jq`,
		jq:     `[.azure_shard.cx_managed_identities_key_vault_url, .maestro_config.consumer_name]`,
		prints: `["https://landfall.invalid/shards/1","mc1"]`},
	{line: `kubectl port-forward -n maestro svc/maestro 8002:8000`},
	{line: `curl -sG http://localhost:8002/api/maestro/v1/resource-bundles --data-urlencode "search=payload->'metadata'->'labels'->>'api.openshift.com/id'='${CLUSTERS_SERVICE_ID}'" | jq`,
		jq:     `[.items[] | (.updated_at != null) and (.status.conditions | any(.type == "Applied" and .status == "True"))]`,
		prints: `[true,true,true,true]`},
	{line: `curl -sG http://localhost:8002/api/maestro/v1/resource-bundles --data-urlencode "search=payload->'metadata'->'labels'->>'api.openshift.com/id'='${CLUSTERS_SERVICE_ID}'" | jq`,
		jq: `[.items[] | .status.resourceStatus[].statusFeedback.values[].fieldValue.jsonRaw | fromjson | ` +
			`.resourceStatus.manifests[].statusFeedback | .values[]? | ` +
			`select(.name | endswith("vailable.status")) | [.name, .fieldValue.string]] | sort`,
		prints: `[["conditions.Available.status","True"],["conditions.EtcdAvailable.status","True"],` +
			`["conditions.KubeAPIServerAvailable.status","True"],` +
			`["conditions.ManagedClusterConditionAvailable.status","True"]]`},
	{line: `kubectl logs -n maestro deployment/maestro-agent -c maestro-agent`,
		shown: `kubectl logs -n maestro deployment/maestro-agent -c maestro-agent`},
	{line: `kubectl get manifestwork -l "api.openshift.com/id=${CLUSTERS_SERVICE_ID}" -n local-cluster`,
		shown: `kubectl get manifestwork -l "api.openshift.com/id=%CID%" -n local-cluster`},
	{line: `kubectl get managedclusters`, shown: `kubectl get managedclusters`},
	{line: `kubectl get hostedclusters -A`, shown: `kubectl get hostedclusters -A`},
	{line: `kubectl get pods -n ocm-xxx-${CLUSTER_ID}-${CLUSTER_NAME}`,
		shown: `kubectl get pods -n ocm-landfall-%CID%-edge1`},
}

// managed is a management cluster of stand-ins whose messages the test passes on.
type managed struct {
	site    *site
	agent   *workagent.Agent
	cluster *workagent.Cluster
}

func (s *site) manage(layout string) *managed {
	s.t.Helper()
	_, err := s.AddManagement(context.Background(), record.Management{Consumer: "mc1", Layout: layout,
		BaseDomain: "hosted.example.com", Address: "192.168.1.10", Profiles: []string{"large"}})
	require.NoError(s.t, err)
	operator, err := hypershift.New(3)
	require.NoError(s.t, err)
	m := &managed{site: s, cluster: workagent.NewCluster(operator)}
	m.agent = workagent.NewAgent("mc1", m.cluster, s.clock, 0)
	return m
}

// apply gives all bundles to the agent, and returns its statuses.
func (m *managed) apply() (statuses map[string]*cloudevent.Event) {
	m.site.t.Helper()
	require.NoError(m.site.t, m.site.DB.View(func(tx *store.Tx) (err error) {
		statuses, err = m.agent.Deliver(tx)
		return err
	}))
	return statuses
}

// requireDeleted requires that the management cluster got HostedClusters, and that exactly those
// were deleted there that somebody deleted.
func (m *managed) requireDeleted(names ...string) {
	m.site.t.Helper()
	m.apply()
	there, deleted := m.cluster.HostedClusters()
	require.NotEmpty(m.site.t, append(there, deleted...))
	require.ElementsMatch(m.site.t, names, deleted, "deleted HostedClusters")
}

// deliver gives all bundles to the agent, and stores its last statuses.
func (m *managed) deliver() {
	s := m.site
	s.t.Helper()
	m.apply()
	s.clock.Advance(time.Minute) // in which the operator works
	statuses := m.apply()
	require.NoError(s.t, s.DB.Update(context.Background(), func(tx *store.Tx) error {
		for id, event := range statuses {
			if err := bundle.PutStatus(tx, id, &bundle.Status{ResourceVersion: event.ResourceVersion,
				Received: s.clock.Now(), Data: event.Data}); err != nil {
				return err
			}
		}
		return nil
	}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }() // settles all clusters first
	require.Eventually(s.t, func() bool {
		return s.do("GET", "/api/clusters_mgmt/v1/clusters", "").at(s.t, "items", 0, "state") == "ready"
	}, time.Minute, 5*time.Millisecond)
	cancel()
	require.NoError(s.t, <-ended)
}

// listen opens the ports for debugging at free ports, and returns curl's configuration that leads
// to them from the usual ones.
func (s *site) listen() (curlHome, config string) {
	s.t.Helper()
	local, err := hostedapi.Listen(s.t.Context(), &hosted.Service{Provider: s.Service}, web.NewConnections(1024),
		hostedapi.Ports{Provider: "0", ClustersService: "0", Maestro: "0"},
		web.Options{Logger: slog.New(slog.DiscardHandler), ShutdownTimeout: time.Second})
	require.NoError(s.t, err)
	var text strings.Builder
	for i, address := range local.Addresses() {
		fmt.Fprintf(&text, "connect-to = \"localhost:%s:%s\"\n", []string{"8443", "8001", "8002"}[i], address)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- local.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		require.NoError(s.t, <-ended)
	})
	curlHome = s.t.TempDir()
	require.NoError(s.t, os.WriteFile(filepath.Join(curlHome, ".curlrc"), []byte(text.String()), 0o600))
	return curlHome, text.String()
}

// Each line of the document, typed into a shell as it stands, with the resource ID in several
// spellings.
func linesAsTheyStand(t *testing.T, s *site) *managed {
	for _, program := range []string{"bash", "curl", "jq"} {
		_, err := exec.LookPath(program)
		require.NoError(t, err, "run .ci/install-curl, as `make test` does")
	}
	management := s.manage(controlplane.Nested)
	cid := s.put("Edge1")
	s.do("PUT", s.resourceID("Edge1")+"/nodePools/workers"+version,
		`{"location":"site","properties":{"platform":{"vmSize":"large"},"replicas":2}}`)
	management.deliver()
	curlHome, curl := s.listen()
	shown := s.do("GET", hostedapi.ClustersRoute+"/"+cid, "")
	require.Equal(t, 200, shown.StatusCode, "%s", shown.body)
	url := s.do("GET", s.resourceID("Edge1")+version, "").at(t, "properties", "api", "url").(string)

	written := s.resourceID("Edge1")
	for name, resourceID := range map[string]string{"as written": written, "lower case": strings.ToLower(written),
		"upper case": strings.ToUpper(written), "namespace of the document": strings.Replace(written, "RedHatOpenShift",
			"RedHatOpenshift", 1)} {
		t.Run(name, func(t *testing.T) {
			fill := strings.NewReplacer("%RESOURCE_ID%", resourceID, "%resource_id%", strings.ToLower(resourceID),
				"%CID%", cid, "%SUBSCRIPTION%", strings.ToLower(s.subscription), "%PORT%",
				url[strings.LastIndex(url, ":")+1:]).Replace
			before := "set -o pipefail\nexport CLUSTER_HREF=/api/clusters_mgmt/v1/clusters/" + cid +
				" CLUSTERS_SERVICE_ID=" + cid + "\n"
			for _, seed := range seedLines {
				line := fill(seed.line)
				switch {
				case seed.shown != "":
					require.Contains(t, shownCommands(t, shown), fill(seed.shown), line)
					continue
				case strings.HasPrefix(line, "kubectl port-forward"):
					port, _, _ := strings.Cut(line[strings.LastIndex(line, " ")+1:], ":")
					require.Contains(t, curl, "localhost:"+port+":", "the appliance has the port open")
					continue
				case seed.jq == "":
					before += line + "\n"
					continue
				}
				shell := exec.CommandContext(t.Context(), "bash", "-c", before+line)
				shell.Env = append(os.Environ(), "CURL_HOME="+curlHome)
				printed, err := shell.Output()
				require.NoError(t, err, "%s: %s", line, printed)
				reader := exec.CommandContext(t.Context(), "jq", "-c", seed.jq)
				reader.Stdin = strings.NewReader(string(printed))
				read, err := reader.CombinedOutput()
				require.NoError(t, err, "%s: %s of %s", line, read, printed)
				require.Equal(t, fill(seed.prints), strings.TrimSpace(string(read)), line)
			}
		})
	}
	return management
}

// shownCommands returns the commands of a cluster that the page shows.
func shownCommands(t *testing.T, detail answer) (all []string) {
	t.Helper()
	for _, line := range detail.at(t, "lines").([]any) {
		all = append(all, line.(map[string]any)["command"].(string))
	}
	return all
}
