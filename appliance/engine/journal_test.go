package engine

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/go-openapi/swag/jsonutils"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access/machine"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/journal"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// newJournalHarness returns a harness whose store keeps the history.
func newJournalHarness(t *testing.T, each, all int64) *harness {
	t.Helper()
	b := newHarness(t)
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{Clock: b.clock, History: journal.History(each, all),
		NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	key, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	b.issuer, err = machine.NewIssuer(key, nil)
	require.NoError(t, err)
	b.Engine = b.engineOver(db)
	return b
}

func (b *harness) collect(cluster string) *journal.Collection {
	b.Helper()
	collected, err := journal.Collect(b.Context(), b.options.DB, JournalLayout(), nil, cluster)
	require.NoError(b, err)
	return collected
}

// written writes a journal and reads it back.
func (b *harness) written(collected *journal.Collection) (archive *journal.Archive, file []byte) {
	b.Helper()
	key, err := sitekey.LoadOrCreate(b.TempDir())
	require.NoError(b, err)
	collected.Recording.MadeAt = b.clock.Now()
	var out bytes.Buffer
	_, err = journal.Write(&out, collected.Recording, nil, nil, "test", key)
	require.NoError(b, err)
	archive, err = journal.Read(bytes.NewReader(out.Bytes()))
	require.NoError(b, err)
	return archive, out.Bytes()
}

// replayed replays a whole journal and returns the final state and the descriptions of its steps.
func (b *harness) replayed(archive *journal.Archive) (state journal.State, descriptions []journal.Description) {
	b.Helper()
	replayer, err := journal.NewReplayer(&archive.Recording)
	require.NoError(b, err)
	describer := journal.NewDescriber(archive.Recording.Base)
	for replayer.Next() != nil {
		applied, err := replayer.Apply()
		require.NoError(b, err)
		descriptions = append(descriptions, describer.Describe(applied))
	}
	require.NoError(b, replayer.Finish())
	return replayer.State(), descriptions
}

// presentHash returns the hash of a cluster's present rows, computed without its history.
func (b *harness) presentHash(collected *journal.Collection) string {
	b.Helper()
	rows := make(map[string][]byte)
	require.NoError(b, b.options.DB.View(func(tx *store.Tx) error {
		keep := func(key string, row store.Row) error {
			// The harness has one cluster, so every row belongs to it.
			rows[key] = JournalLayout().DescribeFile(key, row.JSON)
			return nil
		}
		for _, kind := range []string{"/clusters/", "/infra-envs/", "/hosts/", "/reports/", "/validations/", "/events/",
			"/subscriptions/"} {
			if err := tx.Rows(kind, false, keep); err != nil {
				return err
			}
		}
		return tx.Rows("/files/", true, keep)
	}))
	builder, err := journal.NewBuilder(collected.Redactor, rows)
	require.NoError(b, err)
	recording, err := builder.Recording()
	require.NoError(b, err)
	return recording.Hash
}

func TestJournal_replayEndsInPresentState(t *testing.T) {
	b := newJournalHarness(t, 1<<20, 64<<20)
	cluster, h := b.installing()
	require.NoError(t, h.progress(models.HostStageInstalling, ""))
	require.NoError(t, h.reply(&models.StepReply{StepType: models.StepTypeInstall, StepID: "install-1", ExitCode: 1,
		Error: "failed to write image: disk on fire"}))
	require.NoError(t, b.StoreHostLogs(t.Context(), cluster, h.id, strings.NewReader("a log")))
	b.pass(b.options.Timeouts.HostLogs * 2)
	b.requireCluster(cluster, lifecycle.ClusterFailed)

	collected := b.collect(cluster)
	require.Zero(t, collected.Recording.Dropped)
	require.Empty(t, collected.Recording.Base, "the whole history was recorded")
	require.Equal(t, []string{"logs/" + h.id + ".tar.gz"}, collected.LogFiles)
	archive, _ := b.written(collected)
	state, descriptions := b.replayed(archive)
	hash, err := state.Hash()
	require.NoError(t, err)
	require.Equal(t, b.presentHash(collected), hash)
	require.Equal(t, hash, archive.Manifest.State)

	var lines []string
	for i, step := range descriptions {
		require.False(t, archive.Recording.Steps[i].At.IsZero(), "each step has its time")
		for _, line := range step.Lines {
			lines = append(lines, step.Actor+" | "+step.Operation+" | "+line.Text)
		}
	}
	text := strings.Join(lines, "\n")
	require.Contains(t, text, "node-1 | reply to inventory")
	require.Contains(t, text, "appliance | preparation | cluster bench: status_info")
	require.Contains(t, text, `host node-1 changed from stage`)
	require.Contains(t, text,
		"node-1 | reply to install (0 bytes) | install ended with 1: failed to write image: disk on fire")
	require.Contains(t, text, "cluster bench changed from installing to failed")
	require.Contains(t, text, "appliance | timer")
	require.Contains(t, text, "file logs/"+h.id+".tar.gz was written, 5 bytes")
}

func TestJournal_hasNoSecrets(t *testing.T) {
	b := newJournalHarness(t, 1<<20, 64<<20)
	pull := func(password string) string {
		return fmt.Sprintf(`{"auths":{"quay.io":{"auth":%q}}}`,
			base64.StdEncoding.EncodeToString([]byte("robot:"+password)))
	}
	created, err := b.RegisterCluster(t.Context(), &models.ClusterCreateParams{
		Name: conv.Pointer("bench"), BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.20.8"),
		PullSecret:        conv.Pointer(pull("first-password")),
		ControlPlaneCount: conv.Pointer[int64](1),
		HTTPProxy:         conv.Pointer("http://user:proxy-password@proxy.site.test:3128"),
	})
	require.NoError(t, err)
	cluster := created.ID.String()
	env, err := b.RegisterInfraEnv(t.Context(), &models.InfraEnvCreateParams{
		Name: conv.Pointer("bench_infra-env"), ClusterID: created.ID, PullSecret: conv.Pointer(pull("second-password")),
		OpenshiftVersion:       "4.20.8",
		IgnitionConfigOverride: `{"ignition":{"version":"3.2.0"},"passwd":{"users":[{"name":"core","passwordHash":"$6$salt$override-hash"}]}}`,
	})
	require.NoError(t, err)
	require.NoError(t, b.freeze(t.Context(), env.ID.String(), ""))
	_, err = b.UpdateCluster(t.Context(), cluster,
		&models.V2ClusterUpdateParams{PullSecret: conv.Pointer(pull("third-password"))})
	require.NoError(t, err)
	require.NoError(t, b.SetInstallConfigOverride(t.Context(), cluster,
		`{"platform":{"baremetal":{"hosts":[{"name":"a","bmc":{"address":"x","username":"root","password":"bmc-password"}}]}}}`))
	_, _, err = b.RenewImageCode(t.Context(), env.ID.String(), 0)
	require.NoError(t, err)
	h := b.host(env.ID.String(), 1)
	var token, code, private string
	require.NoError(t, b.options.DB.View(func(tx *store.Tx) error {
		row, err := record.InfraEnvs.Get(tx, env.ID.String())
		if err == nil {
			if token, err = b.issuer.Token(&row.AgentKeys, env.ID.String(), machine.ForAgent); err != nil {
				return err
			}
			code, private = row.Code.Code, row.AgentKeys.Current.Private
		}
		return err
	}))
	require.NotEmpty(t, code)
	require.NoError(t, b.ReportEvent(t.Context(), &models.Event{
		Name: "seen", Severity: conv.Pointer("info"), ClusterID: created.ID, HostID: (*strfmt.UUID)(&h.id),
		InfraEnvID: env.ID,
		Message: conv.Pointer(
			"pulled with first-password; http://user:proxy-password@proxy.site.test:3128 said no to " + token +
				"; see /i/" + code + ".iso"),
	}))
	require.NoError(t, h.reply(&models.StepReply{StepType: models.StepTypeLogsGather, StepID: "x", ExitCode: 1,
		Error: "password: typed-password", Output: "Bearer abcdefghijklmnopqrstuv"}))
	b.startInstallation(cluster)
	b.prepareAll()
	h.report()
	for i := range 2 { // first with the cluster, then after its deletion
		collected := b.collect(cluster)
		archive, file := b.written(collected)
		b.replayed(archive)
		text := string(file)
		for _, part := range []any{archive.Manifest, archive.Recording} {
			text += string(mustMarshal(t, part))
		}
		secrets := []string{
			"first-password", "second-password", "third-password", "proxy-password", "bmc-password", "override-hash",
			"typed-password", "abcdefghijklmnopqrstuv",
			"aaaaa-bbbbb-ccccc-ddddd", pull("first-password"), "BEGIN PRIVATE KEY",
		}
		for _, password := range []string{"first-password", "second-password", "third-password"} {
			secrets = append(secrets, base64.StdEncoding.EncodeToString([]byte("robot:"+password)))
		}
		for _, secret := range append(secrets, token, private, code) {
			require.NotContains(t, text, secret, i)
		}
		require.Contains(t, text, "[redacted]")
		require.NotContains(t, text, "sha256\\\":\\\"", "no hash of a generated file")
		if i == 0 {
			_, err := b.CancelInstallation(t.Context(), cluster)
			require.NoError(t, err)
			require.NoError(t, b.DeregisterCluster(t.Context(), cluster, false))
		}
	}
	collected := b.collect(cluster)
	require.Equal(t, "bench", collected.Recording.ClusterName, "the recording has the name of the deleted cluster")
	require.True(t, slices.ContainsFunc(collected.Recording.Steps[len(collected.Recording.Steps)-1].Changes,
		func(c journal.Change) bool { return c.Deleted && c.Key == "/clusters/"+cluster }))
}

func mustMarshal(t *testing.T, value any) []byte {
	t.Helper()
	text, err := jsonutils.WriteJSON(value)
	require.NoError(t, err)
	return text
}

func TestJournal_droppedChangesAreCounted(t *testing.T) {
	b := newJournalHarness(t, 4<<10, 64<<20)
	cluster, hosts := b.threeNodes(true)
	whole := b.collect(cluster)
	for i := range 30 {
		hosts[0].memory = int64(64+i) << 30
		require.NoError(t, hosts[0].reply(hosts[0].answer(&models.Step{StepType: models.StepTypeInventory})))
	}
	require.NoError(t, b.options.DB.Compact(t.Context(), b.options.DB.Revision()))
	collected := b.collect(cluster)
	require.Greater(t, collected.Recording.Dropped, uint64(10))
	require.NotEmpty(t, collected.Recording.Base)
	require.Equal(t, whole.Recording.ClusterID, collected.Recording.ClusterID)
	archive, _ := b.written(collected)
	state, _ := b.replayed(archive)
	hash, err := state.Hash()
	require.NoError(t, err)
	require.Equal(t, b.presentHash(collected), hash)
	changes := 0
	for _, step := range collected.Recording.Steps {
		for _, change := range step.Changes {
			if strings.Contains(change.Key, hosts[1].id) {
				changes++
			}
		}
	}
	require.Greater(t, changes, 5, "the history of an unchanged host is kept")
}

func TestJournal_clustersOfOneInfraEnvAreSeparate(t *testing.T) {
	b := newJournalHarness(t, 1<<20, 64<<20)
	register := func(name string) string {
		created, err := b.RegisterCluster(t.Context(), &models.ClusterCreateParams{
			Name: conv.Pointer(name), BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.20.8"),
			PullSecret: conv.Pointer(testPullSecret),
		})
		require.NoError(t, err)
		return created.ID.String()
	}
	first, second := register("first"), register("second")
	env := b.infraEnvOf(nil)
	firstHost, secondHost := b.host(env, 1), b.host(env, 2)
	for h, cluster := range map[*testHost]string{firstHost: first, secondHost: second} {
		_, err := b.BindHost(t.Context(), env, h.id, cluster)
		require.NoError(t, err)
	}
	archive, _ := b.written(b.collect(first))
	b.replayed(archive)
	text := string(mustMarshal(t, archive.Recording))
	require.Contains(t, text, firstHost.id)
	require.NotContains(t, text, secondHost.id)
	require.NotContains(t, text, second)
}

func TestJournal_unknownClusterIsRejected(t *testing.T) {
	b := newJournalHarness(t, 1<<20, 64<<20)
	_, err := journal.Collect(t.Context(), b.options.DB, JournalLayout(), nil, "00000000-0000-4000-8000-000000000000")
	b.requireRejected(err, fault.NotFound, "no history of a deleted cluster with this ID")
}

func TestJournal_ownersOfRows(t *testing.T) {
	for key, owner := range map[string]string{
		"/clusters/c": "c", "/subscriptions/c": "c", "/infra-envs/e": "e", "/hosts/e/h": "e/h",
		"/reports/e/h/inventory": "e/h", "/files/c/logs/h.tar.gz": "c",
		"/validations/cluster/c": "c", "/validations/host/e/h": "e/h", "/events/01-00/c": "c",
		"/events/01-00/c/e/h": "h", "/events/01-00/e": "e",
		"/link-keys/downloads": "", "/payloads/quay.io/x": "", "/recipes/e": "", "/x": "",
	} {
		require.Equal(t, owner, journal.Owner(key), key)
	}
}
