package hosted

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// faults are the faults between the person, the appliance and a management cluster, each with the
// test that provokes it, as package directory, test, and name of the case if the test is a table.
// Each test calls requireDeleted, which counts the deletions of HostedClusters at the API of a
// simulated management cluster: nothing may be deleted there that nobody deleted.
var faults = []struct {
	number       int
	fault        string
	at, test, of string
}{
	{1, "broker not listening at create", "maestro", "TestFaults", "broker not listening at create"},
	{2, "broker dies between PUBACK and commit", "maestro", "TestFaults", "broker dies between PUBACK and commit"},
	{3, "appliance killed around publish", "maestro", "TestFaults",
		"appliance killed before, between and after row, publish, PUBACK"},
	{4, "agent never connected", "maestro", "TestFaults", "agent never connected: 7 days of edits, then one resync"},
	{5, "agent offline for days", "maestro", "TestFaults",
		"agent offline for days with 30 updates: only the last version is sent"},
	{6, "agent restarted", "maestro", "TestFaults", "agent killed and restarted (empty cache)"},
	{7, "duplicate spec", "maestro", "TestFaults", "duplicate spec"},
	{8, "duplicate status", "maestro", "TestFaults", "duplicate status"},
	{9, "specs out of order", "maestro", "TestFaults", "specs out of order"},
	{10, "statuses out of order", "maestro", "TestFaults", "statuses out of order (sequenceid)"},
	{11, "status with an old version", "maestro", "TestFaults", "status with old resourceversion"},
	{12, "new version with old conditions", "provider", "TestCluster_oldOrIncompleteReportsAreNotEnough",
		"new resourceversion, old observedGeneration"},
	{13, "agent clock one day back", "maestro", "TestFaults", "agent clock one day back, then right again"},
	{14, "two agents with one client ID", "broker", "TestBroker_takeoverStormIsCounted", ""},
	{15, "status for the bundle of another consumer", "maestro", "TestFaults",
		"two consumers, status for the other's bundle"},
	{16, "topic of another consumer", "broker", "TestBroker_topicsOfOthersAreRefused", ""},
	{17, "update with the wrong version", "maestro", "TestFaults", "spec update with wrong version"},
	{18, "update of a deleting bundle", "maestro", "TestFaults", "update of a deleting bundle"},
	{19, "delete while offline", "maestro", "TestFaults", "delete while offline, then resync"},
	{20, "Deleted status lost", "maestro", "TestFaults", "delete, Deleted status lost, resync heals"},
	{21, "create and delete while offline", "maestro", "TestFaults", "create and delete while offline"},
	{22, "namespace left after a deletion", "..", "TestHosted_fourteenSteps",
		"afterwards: the deletion leaves nothing"},
	{23, "finalizer stuck", "provider", "TestCluster_stuckDeletionSaysWhy", ""},
	{24, "broken status", "maestro", "TestFaults", "broken status"},
	{25, "jsonRaw too long", "provider", "TestCluster_statusThatIsTooLongIsTheReason", ""},
	{26, "inner object without a status", "provider", "TestCluster_oldOrIncompleteReportsAreNotEnough", "no status"},
	{27, "manifest refused by the cluster", "provider", "TestCluster_refusedManifestIsTheReason", ""},
	{28, "definition of the kind missing", "provider", "TestCluster_missingDefinitionNamesTheOperator", ""},
	{29, "restore from an older backup", "maestro", "TestFaults", "restore from an older backup"},
	{30, "restore with lower versions", "maestro", "TestFaults", "restore with lower versions: named+1"},
	{31, "second appliance with the same source", "maestro", "TestFaults",
		"second appliance with the same source id"},
	{32, "broker name changed", "maestro", "TestFaults", "broker name changed: eviction flag holds"},
	{33, "empty status batch", "maestro", "TestFaults", "empty status batch after full batches: not sent"},
	{34, "10,000 bundles, agent restart", "maestro", "TestDelivery_tenThousandBundles", ""},
	{35, "10,000 clusters in search and pages", "../../web/hosted", "TestLists_tenThousandClusters", ""},
	{36, "disk full during a status", "maestro", "TestFaults", "full disk during a status: refused, then repeated"},
	{37, "certificate expired, rotated, removed", "broker", "TestBroker_expiredRotatedRemovedCertificates", ""},
	{38, "plain-text connection", "broker", "TestBroker_plainTextIsRefused", ""},
	{39, "keepalive loss without FIN", "broker", "TestBroker_keepaliveLossEndsTheSession", ""},
	{40, "requests twice and in the wrong state", "provider", "TestCluster_puttingAndDeletingTwice", ""},
	{41, "operation of another tenant, after 7 days", "provider", "TestOperation_otherTenantsAndAge", ""},
	{42, "the document's lines as typed", "../../web/hosted", "TestSeed_linesAsTheyStand", ""},
	{43, "API versions", "../../web/hosted", "TestProvider_badRequests", ""},
	{44, "preflight with expressions", "../../web/hosted", "TestPreflight_checksWhatItKnows", "expression"},
	{45, "creation deadline while disconnected", "provider", "TestCluster_creationTimeStopsWhileDisconnected", ""},
	{46, "no agent for a node pool", "provider", "TestNodePool_waitsForAgents", ""},
	{47, "networks overlap", "provider", "TestCluster_networksOfManagementClusterAreRefused", ""},
	{48, "credential request while revoking", "provider", "TestCredential_isIssuedAndRevoked", ""},
}

// The table names existing tests and cases.
func TestFaults_haveTests(t *testing.T) {
	sources := map[string]string{}
	for i, f := range faults {
		require.Equal(t, i+1, f.number)
		if sources[f.at] == "" {
			files, err := filepath.Glob(filepath.Join(f.at, "*_test.go"))
			require.NoError(t, err)
			require.NotEmpty(t, files, f.at)
			var all strings.Builder
			for _, file := range slices.Sorted(slices.Values(files)) {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				all.Write(text)
			}
			sources[f.at] = all.String()
		}
		_, body, found := strings.Cut(sources[f.at], "\nfunc "+f.test+"(t *testing.T) {")
		require.True(t, found, "%d %s", f.number, f.fault)
		body, _, _ = strings.Cut(body, "\n}\n")
		require.Contains(t, body, "requireDeleted(", "%d %s", f.number, f.fault)
		require.Contains(t, sources[f.at], ".HostedClusters()", "%s counts at the simulated API", f.at)
		require.Contains(t, sources[f.at], f.of, "%d %s", f.number, f.fault)
	}
}
