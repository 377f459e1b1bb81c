package engine

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/release"
	"landfall/appliance/sitekey"
	"landfall/store"
)

func TestPoll_inTimeWritesNothing(t *testing.T) {
	b := newHarness(t)
	_, env := b.singleNode()
	h := b.host(env, 1)
	h.poll()
	before := b.options.DB.Revision()
	for range 60 {
		b.clock.Advance(time.Minute)
		h.poll()
		b.handle()
	}
	h.require(lifecycle.HostKnown)
	require.Equal(t, before, b.options.DB.Revision())
	require.Equal(t, b.clock.Now().UTC(), time.Time(h.require(lifecycle.HostKnown).CheckedInAt).UTC(),
		"the last contact is shown")

	wait, err := b.handleDue(t.Context())
	require.NoError(t, err)
	require.Greater(t, wait, 2*time.Minute, "no check before the first deadline of a host")
}

// The answer to a poll without a time is still valid, but the time must be recorded.
func TestPoll_timeAfterPollWithoutTime(t *testing.T) {
	b := newHarness(t)
	_, env := b.singleNode()
	h := b.newHost(env, 1)
	require.NoError(t, h.register())
	at := func(timestamp int64) {
		_, err := b.Instructions(t.Context(), Poll{InfraEnvID: env, HostID: h.id, AgentVersion: h.agent,
			Timestamp: timestamp})
		require.NoError(t, err)
	}
	at(0)
	b.clock.Advance(500 * time.Millisecond)
	now := b.clock.Now().Unix()
	at(now)
	require.Equal(t, now, h.require(lifecycle.HostDiscovering).Timestamp)
	before := b.options.DB.Revision()
	at(now)
	at(0)
	at(now)
	require.Equal(t, before, b.options.DB.Revision())
}

func TestIngressCertificate_unknownCluster(t *testing.T) {
	b := newHarness(t)
	b.requireRejected(b.UploadIngressCert(t.Context(), "00000000-0000-4000-8000-000000000099", "no certificate"),
		fault.NotFound, "There is no cluster")
}

func TestInfraEnv_keepsRequestedVersion(t *testing.T) {
	b := newHarness(t)
	for asked, want := range map[string]string{"4.20": "4.20", "4.20.8": "4.20.8", "": "4.20.8"} {
		cluster, _ := b.singleNode()
		id := strfmt.UUID(cluster)
		env, err := b.RegisterInfraEnv(t.Context(), &models.InfraEnvCreateParams{Name: conv.Pointer("pool"),
			ClusterID: &id, PullSecret: conv.Pointer(testPullSecret), OpenshiftVersion: asked})
		require.NoError(t, err)
		require.Equal(t, want, env.OpenshiftVersion)
		require.Contains(t, env.DownloadURL, "/"+want+"/x86_64/")
		changed, err := b.UpdateInfraEnv(t.Context(), env.ID.String(),
			&models.InfraEnvUpdateParams{OpenshiftVersion: conv.Pointer("4.20")})
		require.NoError(t, err)
		require.Equal(t, "4.20", changed.OpenshiftVersion)
	}
}

func TestUsage_rolesOverridesAndTang(t *testing.T) {
	b := newHarness(t)
	cluster, hosts := b.threeNodes(true)
	used := func() map[string]models.Usage {
		shown, err := b.Cluster(cluster)
		require.NoError(t, err)
		var usages map[string]models.Usage
		require.NoError(t, json.Unmarshal([]byte(shown.FeatureUsage), &usages))
		return usages
	}
	require.NoError(t, b.SetInstallConfigOverride(t.Context(), cluster,
		`{"fips":true,"networking":{"networkType":"OVNKubernetes"}}`))
	require.Equal(t, map[string]any{"fips": true, "networking networkType": true},
		used()["Install Config Overrides"].Data)
	require.NoError(t, b.SetInstallConfigOverride(t.Context(), cluster, `{"fips":false}`))
	require.Equal(t, map[string]any{"fips": true}, used()["Install Config Overrides"].Data, "the overridden keys")
	_, err := b.UpdateCluster(t.Context(), cluster, &models.V2ClusterUpdateParams{
		DiskEncryption: &models.DiskEncryption{EnableOn: conv.Pointer(models.DiskEncryptionEnableOnAll),
			Mode: conv.Pointer(models.DiskEncryptionModeTpmv2)}})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"enable_on": "all", "mode": "tpmv2", "tang_servers": ""},
		used()["Disk encryption"].Data)

	fourth := b.newHost(hosts[0].env, 4)
	require.NoError(t, fourth.register())
	b.reportAll(append(hosts, fourth))
	b.requireCluster(cluster, lifecycle.ClusterReady)
	require.NotContains(t, used(), "auto assign role")
	b.startInstallation(cluster)
	require.Equal(t, models.Usage{ID: "AUTO_ASSIGN_ROLE", Name: "auto assign role"}, used()["auto assign role"])
}

func TestEngine_sleepsWhenIdle(t *testing.T) {
	b := newHarness(t)
	b.installed()
	b.pass(time.Hour)
	require.NoError(t, b.refreezeAll(t.Context())) // like the first start with this store
	before := b.options.DB.Revision()
	wait, err := b.handleDue(t.Context())
	require.NoError(t, err)
	require.Equal(t, maxWait, wait)

	b.run(func() {
		for range 48 {
			require.NoError(t, b.clock.BlockUntilContext(t.Context(), 1), "the engine waits for one timer")
			b.clock.Advance(maxWait)
		}
	})
	require.Equal(t, before, b.options.DB.Revision())
}

// run calls do while the engine runs. Before that, the engine discards earlier wake-ups, handles
// due deadlines and waits for the clock.
func (b *harness) run(do func()) {
	b.Helper()
	b.discardWakeUps()
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Engine.Run(ctx) }()
	defer func() {
		cancel()
		require.NoError(b, <-ended)
	}()
	do()
}

// discardWakeUps discards pending wake-ups of the engine.
func (b *harness) discardWakeUps() {
	select {
	case <-b.earlierDeadline:
	default:
	}
}

func TestEngine_wakesOnlyForEarlierDeadline(t *testing.T) {
	b := newHarness(t)
	_, env := b.singleNode()
	waitsUntil := func(after time.Duration) {
		b.discardWakeUps()
		b.wakesAt.Store(b.clock.Now().Add(after).UnixNano())
	}
	waitsUntil(time.Minute)
	b.host(env, 1)
	require.Empty(t, b.earlierDeadline, "a host has three minutes")
	waitsUntil(time.Hour)
	b.host(env, 2)
	require.Len(t, b.earlierDeadline, 1)
	b.discardWakeUps()
	b.wakesAt.Store(0)
	b.host(env, 3)
	require.Len(t, b.earlierDeadline, 1, "a running check may have missed the deadline")
}

func TestDeadline_reportsDoNotMoveIt(t *testing.T) {
	b := newHarness(t)
	_, env := b.singleNode()
	h := b.host(env, 1)
	deadline := func() (at time.Time) {
		require.NoError(t, b.options.DB.View(func(tx *store.Tx) error {
			at, _ = record.StateDeadlines.At(tx, record.HostDeadline(env+"/"+h.id))
			return nil
		}))
		return at
	}
	first := deadline()
	require.Equal(t, b.clock.Now().Add(3*time.Minute).UTC(), first)
	b.clock.Advance(2 * time.Minute)
	h.report()
	require.Equal(t, first, deadline())
	b.clock.Advance(time.Minute)
	b.handle()
	require.Equal(t, b.clock.Now().Add(2*time.Minute).UTC(), deadline(), "three minutes after its last contact")
	h.require(lifecycle.HostKnown)
	b.clock.Advance(2 * time.Minute)
	b.handle()
	h.require(lifecycle.HostDisconnected)
}

func TestSleep_hostsGetTimeToReport(t *testing.T) {
	b := newHarness(t)
	_, env := b.singleNode()
	h := b.host(env, 1)
	b.run(func() {
		require.NoError(t, b.clock.BlockUntilContext(t.Context(), 1))
		b.clock.Advance(8 * time.Hour)
		require.NoError(t, b.clock.BlockUntilContext(t.Context(), 1),
			"the engine checked the deadlines and waits again")
		h.require(lifecycle.HostKnown)
	})
	b.pass(2 * time.Minute)
	h.require(lifecycle.HostKnown)
	b.pass(time.Minute)
	h.require(lifecycle.HostDisconnected)
}

func TestRestart_hostsGetTimeToReport(t *testing.T) {
	b := newHarness(t)
	_, env := b.singleNode()
	h := b.host(env, 1)
	b.clock.Advance(8 * time.Hour)
	b.Engine = b.engineOver(b.options.DB)
	b.handle()
	h.require(lifecycle.HostKnown)
	b.pass(3 * time.Minute)
	h.require(lifecycle.HostDisconnected)
}

func TestRestart_stageDoesNotTimeOutWhileOff(t *testing.T) {
	b := newHarness(t)
	_, h := b.installing()
	require.NoError(t, h.progress(models.HostStageWritingImageToDisk, "42%"))
	b.clock.Advance(8 * time.Hour)
	b.Engine = b.engineOver(b.options.DB)
	b.handle()
	h.require(lifecycle.HostInstallingInProgress)
	b.pass(29*time.Minute, h)
	h.require(lifecycle.HostInstallingInProgress)
	b.pass(2*time.Minute, h)
	h.require(lifecycle.HostFailed)
}

func TestLogs_unknownHostIsRejected(t *testing.T) {
	b := newHarness(t)
	cluster, h := b.installing()
	unknown := "7b1c5a0e-0000-4000-8000-000000000001"
	b.requireRejected(b.StoreHostLogs(t.Context(), cluster, unknown, strings.NewReader("logs")), fault.NotFound,
		"has no host "+unknown)
	names, err := b.FileNames(cluster, "logs/")
	require.NoError(t, err)
	require.Empty(t, names)

	known := h.require(lifecycle.HostInstalling)
	require.NoError(t, b.StoreHostLogs(t.Context(), cluster, known.ID.String(), strings.NewReader("logs")))
	names, err = b.FileNames(cluster, "logs/")
	require.NoError(t, err)
	require.Equal(t, []string{"logs/" + known.ID.String() + ".tar.gz"}, names)
	require.False(t, time.Time(h.require(lifecycle.HostInstalling).LogsCollectedAt).IsZero())
}

func TestPreparation_cancelEndsItsRun(t *testing.T) {
	b := newHarness(t)
	b.releases.started = make(chan struct{})
	cluster, env := b.singleNode()
	b.host(env, 1)
	b.run(func() {
		b.startInstallation(cluster)
		<-b.releases.started
		require.EqualValues(t, 1, b.releases.running.Load())
		_, err := b.CancelInstallation(t.Context(), cluster)
		require.NoError(t, err)
		b.startInstallation(cluster)
		<-b.releases.started
		require.EqualValues(t, 1, b.releases.running.Load(), "the first run ended before the second began")
	})
	require.Zero(t, b.releases.running.Load(), "the second run ended with the engine")
	b.requireCluster(cluster, lifecycle.ClusterPreparing)
	require.NotContains(t, b.names(event.Filter{ClusterID: cluster}), event.PreparationFailed)
}

// Generated certificates are valid for a short time, so each attempt generates new files. The files
// are sealed, so a copy of the database does not reveal them.
func TestGeneratedFiles_newForEachAttemptAndSealed(t *testing.T) {
	b := newSealingHarness(t)
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	for try := range int64(2) {
		b.startInstallation(cluster)
		b.prepareAll()
		require.Equal(t, try+1, b.releases.made.Load())
		for _, name := range []string{release.KubeadminPassword, fileKubeconfigNoIngress, release.BootstrapIgnition,
			release.InstallConfig} {
			file, _, err := record.InstallerFiles.Open(b.options.DB, cluster+"/"+name)
			require.NoError(t, err)
			kept, err := io.ReadAll(file)
			require.NoError(t, errors.Join(err, file.Close()))
			require.True(t, sitekey.Sealed(kept), name)
		}
		password, err := b.ReadFile(cluster, release.KubeadminPassword)
		require.NoError(t, err)
		require.Equal(t, "aaaaa-bbbbb-ccccc-ddddd", string(password))
		_, err = b.CancelInstallation(t.Context(), cluster)
		require.NoError(t, err)
		require.NoError(t, h.register())
		h.report()
	}
	require.NoError(t, b.DeregisterCluster(t.Context(), cluster, false))
	require.NoError(t, b.options.DB.View(func(tx *store.Tx) error {
		return record.InstallerFiles.Keys(tx, cluster+"/",
			func(key string) error { return errors.New(key + " is left") })
	}))
}

func TestPreparation_continuesInNextProcess(t *testing.T) {
	b := newHarness(t)
	b.releases.started = make(chan struct{})
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	b.run(func() {
		b.startInstallation(cluster)
		<-b.releases.started
	})
	b.releases.started = nil
	b.Engine = b.engineOver(b.options.DB)
	b.prepareAll()
	h.report()
	require.Equal(t, strfmt.UUID("6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31"), b.requireCluster(cluster,
		lifecycle.ClusterInstalling).OpenshiftClusterID)
}

func TestNew_missingOptions(t *testing.T) {
	_, err := New(Options{})
	require.ErrorContains(t, err, "the store")
}

func TestDelete_rejectedDuringInstallation(t *testing.T) {
	b := newHarness(t)
	cluster, h := b.installing()
	b.requireRejected(b.DeregisterCluster(t.Context(), cluster, false), fault.Conflict, "cancel the installation")
	b.requireRejected(b.DeregisterHost(t.Context(), h.env, h.id), fault.Conflict, "cancel the installation")
	_, err := b.InstallCluster(t.Context(), cluster)
	b.requireRejected(err, fault.Conflict, "install is not possible")
	h.require(lifecycle.HostInstalling)

	_, err = b.CancelInstallation(t.Context(), cluster)
	require.NoError(t, err)
	require.NoError(t, b.DeregisterCluster(t.Context(), cluster, false))
	_, err = b.Cluster(cluster)
	b.requireRejected(err, fault.NotFound, "no cluster")
	_, err = b.Host(h.env, h.id)
	b.requireRejected(err, fault.NotFound, "no host")
	b.pass(time.Hour)
	require.NoError(t, b.options.DB.View(func(tx *store.Tx) error {
		_, ok, err := record.StateDeadlines.Next(tx)
		require.False(t, ok, "no deadline is left")
		return err
	}))
}

func TestHostRegistration_oneRowPerHost(t *testing.T) {
	b := newHarness(t)
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	for range 3 {
		require.NoError(t, h.register())
	}
	hosts, err := b.Hosts(env)
	require.NoError(t, err)
	require.Len(t, hosts, 1)
	require.Len(t, b.requireCluster(cluster, lifecycle.ClusterInsufficient).Hosts, 1)
	registered := 0
	for _, name := range b.names(event.Filter{HostIDs: []string{h.id}}) {
		if name == event.HostRegistered {
			registered++
		}
	}
	require.Equal(t, 1, registered)
}

func TestHostRegistration_movesToItsInfraEnv(t *testing.T) {
	b := newHarness(t)
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	b.requireCluster(cluster, lifecycle.ClusterReady)
	moved := b.newHost(b.infraEnvOf(nil), 1)
	require.NoError(t, moved.register())
	moved.report()
	moved.require(lifecycle.HostKnownUnbound)
	_, err := b.Host(env, h.id)
	b.requireRejected(err, fault.NotFound, "no host")
	require.Empty(t, b.requireCluster(cluster, lifecycle.ClusterPendingForInput).Hosts)
	_, err = b.Instructions(t.Context(), Poll{InfraEnvID: env, HostID: h.id})
	b.requireRejected(err, fault.NotFound, "registers again")
}

func TestHostRegistration_noMoveDuringInstallation(t *testing.T) {
	b := newHarness(t)
	_, h := b.installing()
	b.requireRejected(b.newHost(b.infraEnvOf(nil), 1).register(), fault.Unavailable,
		"is being installed from infra-env "+
			h.env)
	h.require(lifecycle.HostInstalling)
	b.requireRejected(b.newHost(h.env, 2).register(), fault.Unavailable, "accepts no new hosts now")
	_, err := b.Host(h.env, b.newHost(h.env, 2).id)
	b.requireRejected(err, fault.NotFound, "no host")
}

func TestHostRegistration_unknownNames(t *testing.T) {
	b := newHarness(t)
	_, err := b.RegisterHost(t.Context(), "6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31", &models.HostCreateParams{})
	b.requireRejected(err, fault.Invalid, "host_id")
	b.requireRejected(b.newHost("6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31", 1).register(), fault.NotFound, "no infra-env")
}

func TestHostProgress_repeatedLateOrUnknown(t *testing.T) {
	b := newHarness(t)
	_, h := b.installing()
	h.reportStagesUpTo(models.HostStageWritingImageToDisk)
	require.NoError(t, h.progress(models.HostStageWritingImageToDisk, "40%"))
	shown := h.require(lifecycle.HostInstallingInProgress).Progress
	before := b.options.DB.Revision()

	require.NoError(t, h.progress(models.HostStageWritingImageToDisk, "40%"), "repeated after a lost response")
	require.NoError(t, h.progress(models.HostStageStartingInstallation, ""), "older than the current stage")
	require.Equal(t, before, b.options.DB.Revision())
	require.Equal(t, shown, h.require(lifecycle.HostInstallingInProgress).Progress)

	b.requireRejected(h.progress("", ""), fault.Invalid, "current_stage")
	require.Equal(t, before, b.options.DB.Revision())
	stages := 0
	for _, name := range b.names(event.Filter{HostIDs: []string{h.id}}) {
		if name == event.HostStage {
			stages++
		}
	}
	require.Equal(t, 4, stages, "one event a stage: %v", h.require(lifecycle.HostInstallingInProgress).ProgressStages)

	require.NoError(t, h.progress(models.HostStageRebooting, ""), "skips a stage")
	require.EqualValues(t, 75, h.require(lifecycle.HostInstallingInProgress).Progress.InstallationPercentage)
}

func TestHostProgress_rejectedBeforeInstallation(t *testing.T) {
	b := newHarness(t)
	_, env := b.singleNode()
	h := b.host(env, 1)
	before := b.options.DB.Revision()
	b.requireRejected(h.progress(models.HostStageInstalling, ""), fault.Conflict, "progress is not possible")
	require.Equal(t, before, b.options.DB.Revision(), "a rejected report writes nothing")
	require.Empty(t, h.require(lifecycle.HostKnown).Progress.CurrentStage)
}

// hookedContext calls a function when its error is first read.
type hookedContext struct {
	context.Context
	hook func()
}

func (c *hookedContext) Err() error {
	if hook := c.hook; hook != nil {
		c.hook = nil
		hook()
	}
	return c.Context.Err()
}

func TestIngressCertificate_installedAnew(t *testing.T) {
	b := newHarness(t)
	cluster, h := b.finalizing()
	again := func() {
		_, err := b.CancelInstallation(t.Context(), cluster)
		require.NoError(t, err)
		_, err = b.ResetCluster(t.Context(), cluster)
		require.NoError(t, err)
		require.NoError(t, h.register())
		h.report()
		b.startInstallation(cluster)
		b.prepareAll()
	}
	b.requireRejected(b.UploadIngressCert(&hookedContext{t.Context(), again}, cluster, b.authority), fault.Invalid,
		"is installed anew")
	_, err := b.ReadFile(cluster, fileKubeconfig)
	require.Equal(t, fault.NotFound, fault.KindOf(err), "the kubeconfig of the earlier installation is not stored")
	require.NoError(t, b.UploadIngressCert(t.Context(), cluster, b.authority))
}

func TestInstall_completion(t *testing.T) {
	b := newHarness(t)
	cluster, h := b.finalizing()
	_, err := b.CompleteInstallation(t.Context(), cluster, true, "")
	require.NoError(t, err)
	b.requireCluster(cluster, lifecycle.ClusterFinalizing)
	require.NoError(t, b.UploadIngressCert(t.Context(), cluster, b.authority))
	b.requireCluster(cluster, lifecycle.ClusterInstalled)

	before := b.options.DB.Revision()
	require.NoError(t, b.UploadIngressCert(t.Context(), cluster, b.authority))
	_, err = b.CompleteInstallation(t.Context(), cluster, false, "too late")
	require.NoError(t, err)
	require.NoError(t, b.RecordFinalizingProgress(t.Context(), cluster, models.FinalizingStageDone))
	require.NoError(t, h.progress(models.HostStageConfiguring, ""))
	require.Equal(t, before, b.options.DB.Revision(), "a repeated report writes nothing")
	b.requireCluster(cluster, lifecycle.ClusterInstalled)
}

// A cluster is installed when its operators are available and its ingress certificate is there, in
// any order and with or without the controller's last report.
func TestInstall_endsWithoutReportOfController(t *testing.T) {
	type step func(b *harness, cluster string) error
	operator := func(name string, status models.OperatorStatus) step {
		return func(b *harness, cluster string) error {
			return b.ReportOperator(b.Context(), cluster, &models.OperatorMonitorReport{Name: name, Status: status})
		}
	}
	ingress := func(b *harness, cluster string) error {
		return b.UploadIngressCert(b.Context(), cluster, b.authority)
	}
	report := func(success bool) step {
		return func(b *harness, cluster string) error {
			_, err := b.CompleteInstallation(b.Context(), cluster, success, "reported twice")
			return err
		}
	}
	console, cvo := operator("console", models.OperatorStatusAvailable), operator("cvo", models.OperatorStatusAvailable)
	pending := operator("cvo", models.OperatorStatusProgressing)
	for name, steps := range map[string][]step{ // the cluster is installed after the last step, and not before it
		"operators last":               {ingress, console, pending, cvo},
		"certificate last":             {console, cvo, ingress},
		"report without operators":     {ingress, report(true)},
		"report before certificate":    {report(true), report(true), ingress},
		"failure after the report":     {report(true), report(false), ingress},
		"a failed operator, corrected": {ingress, console, operator("cvo", models.OperatorStatusFailed), cvo},
	} {
		t.Run(name, func(t *testing.T) {
			b := newHarness(t)
			cluster, _ := b.finalizing()
			for _, step := range steps {
				b.requireCluster(cluster, lifecycle.ClusterFinalizing)
				require.NoError(t, step(b, cluster))
			}
			installed := b.requireCluster(cluster, lifecycle.ClusterInstalled)
			require.Equal(t, int64(100), installed.Progress.TotalPercentage)
			for _, late := range []step{report(true), report(false), report(true),
				operator("cvo", models.OperatorStatusFailed)} {
				require.NoError(t, late(b, cluster))
				b.requireCluster(cluster, lifecycle.ClusterInstalled)
			}
		})
	}
}

func TestIngressCertificate_invalid(t *testing.T) {
	b := newHarness(t)
	cluster, _ := b.installing()
	for name, text := range map[string]string{
		"empty": "  \n", "no PEM": "certificate",
		"PEM of nothing":             "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
		"data after the certificate": b.authority + "rubbish",
	} {
		t.Run(name, func(t *testing.T) {
			err := b.UploadIngressCert(t.Context(), cluster, text)
			require.ErrorContains(t, err, "The ingress certificate")
			require.Equal(t, fault.Invalid, fault.KindOf(err))
		})
	}
	_, _, err := b.OpenFile(cluster, fileKubeconfig)
	b.requireRejected(err, fault.NotFound, "kubeconfig")
	require.NoError(t, b.UploadIngressCert(t.Context(), cluster, b.authority))
	file, _, err := b.OpenFile(cluster, fileKubeconfig)
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

func TestIngressCertificate_beforeKubeconfig(t *testing.T) {
	b := newHarness(t)
	cluster, _ := b.singleNode()
	b.requireRejected(b.UploadIngressCert(t.Context(), cluster, b.authority), fault.Invalid, "no kubeconfig yet")
	_, err := b.Credentials(cluster)
	b.requireRejected(err, fault.Conflict, "no credentials yet")
}

func TestUpdateHost(t *testing.T) {
	b := newHarness(t)
	_, env := b.singleNode()
	h := b.newHost(env, 1)
	require.NoError(t, h.register())
	update := func(params *models.HostUpdateParams) error {
		_, err := b.UpdateHost(t.Context(), env, h.id, params)
		return err
	}
	install := func(disk string) *models.HostUpdateParams {
		return &models.HostUpdateParams{DisksSelectedConfig: []*models.DiskConfigParams{{ID: &disk,
			Role: models.DiskRoleInstall}}}
	}
	b.requireRejected(update(install("/dev/disk/by-id/b")), fault.Conflict, "has not reported its disks")
	h.report()
	require.Equal(t, "/dev/sda", h.require(lifecycle.HostKnown).InstallationDiskPath)

	b.requireRejected(update(&models.HostUpdateParams{HostName: conv.Pointer("Not A Name")}), fault.Invalid,
		"Not A Name")
	b.requireRejected(update(&models.HostUpdateParams{HostRole: conv.Pointer("king")}), fault.Invalid, "no role")
	b.requireRejected(update(install("/dev/disk/by-id/z")), fault.Invalid, "has no disk")
	b.requireRejected(update(install("/dev/disk/by-id/c")), fault.Conflict, "can't be the installation disk")
	require.Equal(t, "/dev/sda", h.require(lifecycle.HostKnown).InstallationDiskPath)

	require.NoError(t, update(&models.HostUpdateParams{HostName: conv.Pointer("control-1"),
		HostRole: conv.Pointer("master")}))
	require.NoError(t, update(install("/dev/disk/by-id/b")))
	got := h.require(lifecycle.HostKnown)
	require.Equal(t, []any{"control-1", models.HostRoleMaster, "/dev/sdb"}, []any{got.RequestedHostname, got.Role,
		got.InstallationDiskPath})
	h.report()
	require.Equal(t, "/dev/sdb", h.require(lifecycle.HostKnown).InstallationDiskPath,
		"a new inventory keeps the disk")
	require.NotContains(t, b.names(event.Filter{HostIDs: []string{h.id}}), event.HostRole,
		"before, the host was the control plane of a single-node cluster")
	require.NoError(t, update(&models.HostUpdateParams{HostRole: conv.Pointer("worker")}))
	require.Contains(t, b.names(event.Filter{HostIDs: []string{h.id}}), event.HostRole)
}

// Kubernetes rejects these labels, so the node could not register.
func TestUpdateHost_invalidNodeLabels(t *testing.T) {
	b := newHarness(t)
	_, env := b.singleNode()
	h := b.newHost(env, 1)
	require.NoError(t, h.register())
	update := func(key, value string) error {
		_, err := b.UpdateHost(t.Context(), env, h.id, &models.HostUpdateParams{HostName: conv.Pointer("renamed"),
			NodeLabels: []*models.NodeLabelParams{{Key: &key, Value: &value}}})
		return err
	}
	for _, label := range [][]string{{"a/b/c", "1"}, {"", "1"}, {"/a", "1"}, {"a b", "1"}, {"-a", "1"},
		{strings.Repeat("a", 64), "1"}, {"a", "two words"}, {"a", "-1"}, {"a", strings.Repeat("1", 64)}} {
		b.requireRejected(update(label[0], label[1]), fault.Invalid, "node_labels: Invalid value")
	}
	got := h.require(lifecycle.HostDiscovering)
	require.Empty(t, got.NodeLabels)
	require.NotEqual(t, "renamed", got.RequestedHostname, "nothing of a rejected request is stored")
	require.NoError(t, update("example.com/rack", ""))
	require.JSONEq(t, `{"example.com/rack":""}`, h.require(lifecycle.HostDiscovering).NodeLabels)
}

func TestUpdateHost_rejectedDuringInstallation(t *testing.T) {
	b := newHarness(t)
	_, h := b.installing()
	_, err := b.UpdateHost(t.Context(), h.env, h.id, &models.HostUpdateParams{HostName: conv.Pointer("late")})
	b.requireRejected(err, fault.Conflict, "can't be changed now")
}

func TestHost_wrongClock(t *testing.T) {
	b := newHarness(t)
	cluster, hosts := b.threeNodes(true)
	b.requireCluster(cluster, lifecycle.ClusterReady)
	hosts[1].skew = -2 * time.Hour
	for _, h := range hosts {
		h.poll()
	}
	hosts[1].require(lifecycle.HostInsufficient)
	b.requireCluster(cluster, lifecycle.ClusterInsufficient)
	hosts[1].skew = time.Second
	hosts[1].poll()
	hosts[1].require(lifecycle.HostKnown)
	b.requireCluster(cluster, lifecycle.ClusterReady)
}

func TestOutbox(t *testing.T) {
	b := newHarness(t)
	cluster, _ := b.installed()
	row := b.subscriptionOf(cluster)
	require.Equal(t, outbox.Active, row.Phase)
	require.True(t, row.MustExist)
	require.Equal(t, "6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31", row.ExternalClusterID)
	require.NoError(t, b.DeregisterCluster(t.Context(), cluster, false))
	require.Equal(t, outbox.Active, b.subscriptionOf(cluster).Phase,
		"an installed cluster stays in AMS after its deletion here")
	require.Equal(t, b.clock.Now().UTC(), b.subscriptionOf(cluster).DeletedAt)

	fresh, _ := b.singleNode()
	require.Equal(t, outbox.Reserved, b.subscriptionOf(fresh).Phase)
	generation := b.subscriptionOf(fresh).Generation
	_, err := b.UpdateCluster(t.Context(), fresh, &models.V2ClusterUpdateParams{Name: conv.Pointer("renamed")})
	require.NoError(t, err)
	require.Equal(t, "renamed", b.subscriptionOf(fresh).DisplayName)
	require.Greater(t, b.subscriptionOf(fresh).Generation, generation)
	require.NoError(t, b.DeregisterCluster(t.Context(), fresh, false))
	require.Equal(t, []string{cluster}, b.outboxKeys(),
		"AMS receives no request about a cluster that was deleted before the first request")

	recorded, _ := b.singleNode()
	require.NoError(t, b.RecordSubscription(t.Context(), recorded, "2GOuuT2l3odeHRdWqY57fviSE2K",
		"AMS has stored the cluster.",
		false, func(tx *store.Tx) error {
			return outbox.RecordedRows.Put(tx, recorded,
				&outbox.Recorded{SubscriptionID: "2GOuuT2l3odeHRdWqY57fviSE2K"})
		}))
	shown, err := b.Cluster(recorded)
	require.NoError(t, err)
	require.Equal(t, "2GOuuT2l3odeHRdWqY57fviSE2K", shown.AmsSubscriptionID.String())
	require.NoError(t, b.DeregisterCluster(t.Context(), recorded, false))
	require.Equal(t, outbox.Absent, b.subscriptionOf(recorded).Phase,
		"AMS receives the deletion of a cluster that it may have stored")
}

func TestOutbox_emptyWithoutAMS(t *testing.T) {
	b := newHarness(t)
	b.options.WithoutAMS = true
	cluster, _ := b.installed()
	require.True(t, b.subscriptionOf(cluster).MustExist, "the subscription is kept with the cluster")
	require.NoError(t, b.DeregisterCluster(t.Context(), cluster, false))
	require.Empty(t, b.outboxKeys())

	recorded, _ := b.singleNode()
	require.NoError(t, b.RecordSubscription(t.Context(), recorded, "2GOuuT2l3odeHRdWqY57fviSE2K",
		"AMS has stored the cluster.",
		false, func(tx *store.Tx) error {
			return outbox.RecordedRows.Put(tx, recorded,
				&outbox.Recorded{SubscriptionID: "2GOuuT2l3odeHRdWqY57fviSE2K"})
		}))
	require.NoError(t, b.DeregisterCluster(t.Context(), recorded, false))
	require.Equal(t, []string{recorded}, b.outboxKeys(),
		"an existing subscription, for example from a courier file, is removed from AMS")
}

func TestReply_repeatedFactsWriteNothing(t *testing.T) {
	b := newHarness(t)
	_, env := b.singleNode()
	h := b.host(env, 1)
	h.report()
	before := b.options.DB.Revision()
	h.report()
	require.Equal(t, before, b.options.DB.Revision())

	b.requireRejected(h.reply(&models.StepReply{StepType: models.StepTypeInventory, Output: "{"}), fault.Invalid,
		"JSON")
	b.requireRejected(h.reply(&models.StepReply{StepType: "dance"}), fault.Invalid, "dance")
	require.Equal(t, before, b.options.DB.Revision())
	h.require(lifecycle.HostKnown)
}

// The encoder of the store must return the same output as encoding/json.
func TestRows_areEncodedAsByEncodingJSON(t *testing.T) {
	b := newHarness(t)
	_, env := b.singleNode()
	b.host(env, 1).report()
	deleted, _ := b.singleNode()
	require.NoError(t, b.DeregisterCluster(t.Context(), deleted, false))
	require.NoError(t, b.options.DB.View(func(tx *store.Tx) error {
		return errors.Join(
			requireStandardRows(t, tx, record.Clusters), requireStandardRows(t, tx, record.InfraEnvs),
			requireStandardRows(t, tx, record.Hosts),
			requireStandardRows(t, tx, event.Rows), requireStandardRows(t, tx, outbox.DesiredRows),
		)
	}))
}

func requireStandardRows[T any](t *testing.T, tx *store.Tx, rows store.Bucket[T]) error {
	name := strings.Trim(rows.Prefix(), "/")
	raw, found := store.NewBucket[json.RawMessage](name, 1), 0
	err := rows.Each(tx, "", func(key string, row *T) error {
		found++
		text, err := raw.Get(tx, key)
		require.NoError(t, err)
		standard, err := json.Marshal(row)
		require.Equal(t, string(standard), string(*text))
		return err
	})
	require.NotZero(t, found, name)
	return err
}

func TestDeadlines_contactedHostsMoveTogether(t *testing.T) {
	b := newHarness(t)
	_, env := b.singleNode()
	first, second, silent := b.host(env, 1), b.host(env, 2), b.host(env, 3)
	limit := b.options.Timeouts.HostDisconnected
	for i, h := range []*testHost{first, second, silent} {
		if i > 0 {
			b.clock.Advance(10 * time.Second)
		}
		h.report()
	}
	b.clock.Advance(limit - 40*time.Second)
	first.poll()
	second.poll()
	b.clock.Advance(20 * time.Second) // the deadline of the first host passes
	wait, err := b.handleDue(t.Context())
	require.NoError(t, err)
	require.Zero(t, wait)
	wait, err = b.handleDue(t.Context())
	require.NoError(t, err)
	require.Equal(t, 20*time.Second, wait,
		"the second host's deadline was postponed with the first one, but not that of the disconnected host")
}
