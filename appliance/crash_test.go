package appliance_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/client"
	"github.com/openshift/assisted-service/client/events"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"landfall/appliance"
	"landfall/appliance/command/member"
	"landfall/appliance/config"
	"landfall/appliance/dataversion"
	"landfall/appliance/keyring"
	"landfall/appliance/process"
	"landfall/appliance/simulate"
	"landfall/porttest"
	"landfall/randtest"
	"landfall/store"
)

const (
	// kills is the minimum number of kills during the installations.
	kills = 50
	// crashHosts is the number of hosts of each installed cluster.
	crashHosts = 3
	// installationLimit limits one installation with all its kills; most take five seconds.
	installationLimit = 3 * time.Minute
	// applianceEnv names the configuration file. If it is set, this program runs an appliance and
	// no test.
	applianceEnv = "LANDFALL_TEST_APPLIANCE"
)

// runApplianceProcess runs an appliance until the standard input ends, if applianceEnv is set.
func runApplianceProcess() {
	path := os.Getenv(applianceEnv)
	if path == "" {
		return
	}
	if err := serveApplianceProcess(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serveApplianceProcess(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var config config.Config
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	defer process.TuneCollector()()
	defer process.AddThreads()()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if config.Fleet.Enabled() {
		return member.Run(ctx, member.Options{Config: config, Logger: logger, Version: "test",
			Listening: func(string) { fmt.Println("ready") },
			Leading:   func(*appliance.Appliance) error { return nil }})
	}
	running, err := appliance.New(ctx, config, logger, "test")
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return running.Run(ctx)
}

// applianceProcess is an appliance in a process of its own.
type applianceProcess struct {
	config   string // path of its configuration
	log      string // path of its standard error, over all starts
	address  string
	process  *exec.Cmd
	starting time.Duration // duration of its last start
	hold     io.Closer     // its standard input
	output   io.Reader     // its standard output, until it listens
}

func newApplianceProcess(t testing.TB, s *site) *applianceProcess {
	t.Helper()
	s.config.Listen = porttest.Reserve(t)
	text, err := json.Marshal(s.config)
	require.NoError(t, err)
	dir := t.TempDir()
	v := &applianceProcess{config: filepath.Join(dir, "config.json"), log: filepath.Join(dir, "log"),
		address: "http://" + s.config.Listen}
	require.NoError(t, os.WriteFile(v.config, text, 0o600))
	t.Cleanup(func() {
		if v.process != nil {
			v.kill(t)
		}
	})
	return v
}

// start starts the appliance and returns when it listens.
func (v *applianceProcess) start(t testing.TB) {
	t.Helper()
	begun := time.Now()
	v.launch(t)
	v.awaitReady(t)
	v.starting = time.Since(begun)
}

// launch starts the process of the appliance.
func (v *applianceProcess) launch(t testing.TB) {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	log, err := os.OpenFile(v.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer log.Close()
	v.process = exec.Command(program)
	v.process.Env = append(os.Environ(), applianceEnv+"="+v.config)
	v.process.Stderr = log
	v.output, err = v.process.StdoutPipe()
	require.NoError(t, err)
	v.hold, err = v.process.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, v.process.Start())
}

// awaitReady returns when the appliance listens, after launch.
func (v *applianceProcess) awaitReady(t testing.TB) {
	t.Helper()
	if v.output == nil {
		return
	}
	line, err := bufio.NewReader(v.output).ReadString('\n')
	v.output = nil
	require.NoError(t, err, "the appliance did not start: %s", v.tail(t))
	require.Equal(t, "ready\n", line)
}

// kill sends SIGKILL, which has the effect of a power cut on the process.
func (v *applianceProcess) kill(t testing.TB) {
	t.Helper()
	require.NoError(t, v.process.Process.Kill())
	var ended *exec.ExitError
	require.ErrorAs(t, v.process.Wait(), &ended)
	require.Equal(t, -1, ended.ExitCode(), "the appliance ended without a kill: %s", v.tail(t))
	v.process, v.output = nil, nil
}

func (v *applianceProcess) tail(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(v.log)
	require.NoError(t, err)
	return string(text[max(0, len(text)-8<<10):])
}

// TestInstallation_survivesEveryKill kills the appliance at random times in all phases of
// installations and restarts it immediately. The hosts keep running.
func TestInstallation_survivesEveryKill(t *testing.T) {
	chance := randtest.New(t, 0)
	s := newSite(t)
	v := newApplianceProcess(t, s)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the appliance's log:\n%s", v.tail(t))
		}
	})
	total, byPhase := 0, make(map[string]int)
	hit := func(phase string) bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(byPhase)),
			func(name string) bool { return strings.HasPrefix(name, phase) })
	}
	for number := 1; total < kills || !hit("discovery") || !hit("preparing") || !hit("installing") ||
		!hit("finalizing"); number++ {
		require.LessOrEqual(t, number, 20, "no kills during %v: %v", []string{"discovery", "preparing",
			"installing", "finalizing"}, byPhase)
		// Each installation extracts the installer again, so that kills also happen during the
		// extraction.
		require.NoError(t, os.RemoveAll(filepath.Join(s.config.DataDir, "installers")))
		in := &crashTest{applianceProcess: v, site: s, number: number, chance: chance}
		total += in.install(t, byPhase)
	}
	t.Logf("%d kills: %v", total, byPhase)
}

// crashTest is one installation on an appliance that is killed repeatedly.
type crashTest struct {
	*applianceProcess
	site   *site
	number int
	chance *rand.Rand
	// silence is the longest time without events until a kill; 0 for 800 ms.
	silence time.Duration
	copies  bool // members of a fleet answer reads from their copies

	api       *client.AssistedInstall
	clusterID strfmt.UUID
	envID     strfmt.UUID

	groupEvents chan simulate.Event // events of the simulated hosts
	stages      map[string][]string // reported stages by host
	steps       map[string]bool     // steps carried out by agents, by host and type
	silent      int                 // consecutive starts without an event of the group
	phase       atomic.Value        // holds a string
	seen        identity
}

// identity holds the values of a cluster that must not change once they are set.
type identity struct {
	openshiftID strfmt.UUID
	authority   string // certificate authority of the kubeconfig
}

func (in *crashTest) install(t *testing.T, byPhase map[string]int) (killed int) {
	in.start(t)
	in.installWhile(t, func() {
		in.kill(t)
		killed++
		byPhase[in.phase.Load().(string)]++
		require.Less(t, killed, 4*kills, "the installation does not continue: %v", byPhase)
		in.start(t)
	})
	in.kill(t)
	in.verifyStore(t)
	return killed
}

// installWhile installs a cluster, and checks what the API says about it. It calls interrupt at
// random times until the cluster is installed.
func (in *crashTest) installWhile(t *testing.T, interrupt func()) {
	t.Helper()
	in.awaitReady(t)
	in.create(t)
	ctx, cancel := context.WithTimeout(t.Context(), installationLimit)
	defer cancel()
	groupEnded, operatorEnded := in.begin(ctx, 600)
	for !in.runUntilKill(t, groupEnded, operatorEnded) {
		interrupt()
	}
	require.NoError(t, <-operatorEnded)
	in.awaitReady(t)
	in.verifyAnswers(t)
}

// begin starts the hosts of the cluster and the operator. They send their errors when they end.
func (in *crashTest) begin(ctx context.Context, speed float64) (groupEnded, operatorEnded chan error) {
	in.groupEvents, in.stages, in.steps = make(chan simulate.Event, 4096), make(map[string][]string),
		make(map[string]bool)
	group := &simulate.HostGroup{
		URL: in.address, InfraEnvID: in.envID.String(), Count: crashHosts, Speed: speed, Seed: uint64(in.number),
		Observer: func(event simulate.Event) { in.groupEvents <- event },
	}
	groupEnded, operatorEnded = make(chan error, 1), make(chan error, 1)
	go func() { groupEnded <- group.Run(ctx) }()
	go func() { operatorEnded <- in.runOperator(ctx) }()
	return groupEnded, operatorEnded
}

// runUntilKill lets the appliance run until its random end: after some more events, or after some
// time without events of the hosts. It reports whether the group ended before.
func (in *crashTest) runUntilKill(t *testing.T, groupEnded <-chan error, operatorEnded chan error) bool {
	t.Helper()
	// An appliance that always dies before the installer is extracted, or before Install is
	// pressed, would never finish. Each run without an event therefore makes the limits of the next
	// one four times as large, up to 64 times. Slow starts also raise the time limit.
	longer := min(2*in.silent, 6)
	more := (1 + in.chance.IntN(8)) << longer
	limit := time.Duration(in.chance.Int64N(int64(cmp.Or(in.silence, 800*time.Millisecond)))) << longer * max(1,
		in.starting/(200*time.Millisecond))
	in.silent++
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case err := <-groupEnded:
			require.NoError(t, err)
			in.drain()
			return true
		case err := <-operatorEnded:
			require.NoError(t, err)
			operatorEnded <- nil // the caller reads it at the end
			operatorEnded = nil
		case <-timer.C:
			in.drain()
			return false
		case event := <-in.groupEvents:
			if !in.recordEvent(event) {
				continue
			}
			in.silent = 0
			if more--; more == 0 {
				// The event arrives shortly before or after its report is stored. The kill must
				// also happen in between.
				timer.Reset(time.Duration(in.chance.IntN(20)) * time.Millisecond)
			}
		}
	}
}

func (in *crashTest) drain() {
	for {
		select {
		case event := <-in.groupEvents:
			in.recordEvent(event)
		default:
			return
		}
	}
}

// recordEvent records an event of the group. It reports whether the event advances the
// installation: a higher percentage of the same stage and an inventory from before do not.
func (in *crashTest) recordEvent(event simulate.Event) bool {
	id, stage := event.HostID.String(), string(event.Stage)
	switch event.Kind {
	case simulate.EventStage:
	case simulate.EventStep:
		known := in.steps[id+event.Info]
		in.steps[id+event.Info] = true
		return !known
	default:
		return true
	}
	if slices.Contains(in.stages[id], stage) {
		return false
	}
	in.stages[id] = append(in.stages[id], stage)
	return true
}

func (in *crashTest) create(t *testing.T) {
	t.Helper()
	in.api = upstream(t, in.address)
	if in.copies {
		remembers := openConnection(in.address)
		remembers.trusted = &http.Client{Transport: new(remembering)}
		in.api = remembers.upstream(t)
	}
	in.phase.Store("discovery")
	name := fmt.Sprintf("crash%d", in.number)
	in.insist(t, "create a cluster", func() error {
		created, err := in.api.Installer.V2RegisterCluster(t.Context(),
			&installer.V2RegisterClusterParams{NewClusterParams: &models.ClusterCreateParams{
				Name: &name, BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer(in.site.release.Version),
				PullSecret:  conv.Pointer(pullSecret),
				APIVips:     []*models.APIVip{{IP: "192.168.100.4"}},
				IngressVips: []*models.IngressVip{{IP: "192.168.100.5"}},
			}})
		if err == nil {
			in.clusterID = *created.Payload.ID
		}
		return err
	})
	in.insist(t, "create an infra-env", func() error {
		created, err := in.api.Installer.RegisterInfraEnv(t.Context(),
			&installer.RegisterInfraEnvParams{InfraenvCreateParams: &models.InfraEnvCreateParams{
				Name: conv.Pointer(name + "_infra-env"), ClusterID: &in.clusterID, PullSecret: conv.Pointer(pullSecret),
				OpenshiftVersion: in.site.release.Version,
			}})
		if err == nil {
			in.envID = *created.Payload.ID
		}
		return err
	})
}

// insist sends a request that must succeed. A member of a fleet may lose its leadership on a busy
// machine: then insist repeats the request, which may be carried out twice.
func (in *crashTest) insist(t *testing.T, what string, request func() error) {
	t.Helper()
	if !in.copies {
		require.NoError(t, request(), what)
		return
	}
	eventually(t, what, func() bool {
		err := request()
		return err == nil || !connectionLost(err) && assert.NoError(t, err, what)
	})
}

// runOperator acts as the user: it presses Install when the cluster is ready, and checks the values
// that must not change. It repeats requests that were not answered.
func (in *crashTest) runOperator(ctx context.Context) error {
	ticker := time.NewTicker(25 * time.Millisecond)
	defer ticker.Stop()
	for pressed := false; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		got, err := in.api.Installer.V2GetCluster(ctx, &installer.V2GetClusterParams{ClusterID: in.clusterID})
		if err != nil {
			continue
		}
		cluster := got.Payload
		switch *cluster.Status {
		case models.ClusterStatusReady:
			in.phase.Store("install")
			// After a lost response, the next read of the cluster shows whether the request was
			// accepted. In a fleet, a member that has just started may not know it yet.
			_, err := in.api.Installer.V2InstallCluster(ctx,
				&installer.V2InstallClusterParams{ClusterID: in.clusterID})
			_, conflict := errors.AsType[*installer.V2InstallClusterConflict](err)
			if conflict && pressed && in.copies {
				continue
			}
			pressed = true
			if err != nil && !connectionLost(err) {
				return fmt.Errorf("pressing Install: %w", err)
			}
		case models.ClusterStatusPreparingForInstallation:
			in.phase.Store("preparing")
		case models.ClusterStatusInstalling, models.ClusterStatusInstallingPendingUserAction:
			in.phase.Store(fmt.Sprintf("installing at %d%%", cluster.Progress.InstallingStagePercentage/20*20))
		case models.ClusterStatusFinalizing:
			in.phase.Store("finalizing")
		case models.ClusterStatusInstalled:
			return in.checkIdentity(ctx, cluster)
		case models.ClusterStatusError, models.ClusterStatusCancelled:
			return fmt.Errorf("the cluster is %s: %s", *cluster.Status, *cluster.StatusInfo)
		}
		if err := in.checkIdentity(ctx, cluster); err != nil {
			return err
		}
	}
}

// connectionLost reports whether the response to a request is missing or incomplete.
func connectionLost(err error) bool {
	var refusal interface{ IsCode(code int) bool }
	return !errors.As(err, &refusal) || refusal.IsCode(http.StatusServiceUnavailable)
}

// checkIdentity records the identity of the cluster when it first appears, and checks that it does
// not change.
func (in *crashTest) checkIdentity(ctx context.Context, cluster *models.Cluster) error {
	if cluster.OpenshiftClusterID == "" {
		if in.seen.openshiftID != "" {
			return fmt.Errorf("the cluster's ID %s is missing", in.seen.openshiftID)
		}
		return nil
	}
	if in.seen.openshiftID == "" {
		in.seen.openshiftID = cluster.OpenshiftClusterID
	}
	if in.seen.openshiftID != cluster.OpenshiftClusterID {
		return fmt.Errorf("the cluster's ID changed from %s to %s", in.seen.openshiftID, cluster.OpenshiftClusterID)
	}
	var kubeconfig bytes.Buffer
	_, err := in.api.Installer.V2DownloadClusterCredentials(ctx,
		&installer.V2DownloadClusterCredentialsParams{ClusterID: in.clusterID, FileName: "kubeconfig-noingress"},
		&kubeconfig)
	if err != nil {
		if connectionLost(err) {
			return nil
		}
		return fmt.Errorf("download the kubeconfig: %w", err)
	}
	authority, err := authorityOf(kubeconfig.Bytes())
	if err != nil {
		return err
	}
	if in.seen.authority == "" {
		in.seen.authority = authority
	}
	if in.seen.authority != authority {
		return errors.New("the kubeconfig's certificate authority changed")
	}
	return nil
}

// authorityOf returns the certificate authorities of a kubeconfig in PEM.
func authorityOf(kubeconfig []byte) (string, error) {
	var config struct {
		Clusters []struct {
			Cluster struct {
				Authority string `yaml:"certificate-authority-data"`
			} `yaml:"cluster"`
		} `yaml:"clusters"`
	}
	if err := yaml.Unmarshal(kubeconfig, &config); err != nil {
		return "", err
	}
	if len(config.Clusters) != 1 {
		return "", fmt.Errorf("the kubeconfig names %d clusters", len(config.Clusters))
	}
	text, err := base64.StdEncoding.DecodeString(config.Clusters[0].Cluster.Authority)
	return string(text), err
}

// verifyAnswers checks the API's responses about the installed cluster.
func (in *crashTest) verifyAnswers(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	got, err := in.api.Installer.V2GetCluster(ctx, &installer.V2GetClusterParams{ClusterID: in.clusterID})
	require.NoError(t, err)
	require.Equal(t, models.ClusterStatusInstalled, *got.Payload.Status, *got.Payload.StatusInfo)
	require.Equal(t, in.seen.openshiftID, got.Payload.OpenshiftClusterID)
	require.EqualValues(t, 100, got.Payload.Progress.TotalPercentage)

	hosts, err := in.api.Installer.V2ListHosts(ctx, &installer.V2ListHostsParams{InfraEnvID: in.envID})
	require.NoError(t, err)
	require.Len(t, hosts.Payload, crashHosts)
	require.Len(t, got.Payload.Hosts, crashHosts)
	bootstraps := 0
	for _, h := range hosts.Payload {
		require.Equal(t, models.HostStatusInstalled, *h.Status, "%s: %s", h.RequestedHostname, *h.StatusInfo)
		require.Equal(t, models.HostStageDone, h.Progress.CurrentStage)
		if h.Bootstrap {
			bootstraps++
		}
	}
	require.Equal(t, 1, bootstraps)
	var kubeconfig bytes.Buffer
	in.insist(t, "download the kubeconfig", func() error { // only the leader has it
		kubeconfig.Reset()
		_, err := in.api.Installer.V2DownloadClusterCredentials(ctx,
			&installer.V2DownloadClusterCredentialsParams{ClusterID: in.clusterID, FileName: "kubeconfig"}, &kubeconfig)
		return err
	})
	authority, err := authorityOf(kubeconfig.Bytes())
	require.NoError(t, err)
	require.Contains(t, authority, strings.TrimSpace(in.seen.authority))
	require.Equal(t, strings.Count(in.seen.authority, "BEGIN CERTIFICATE")+1,
		strings.Count(authority, "BEGIN CERTIFICATE"), "one more certificate, that of the ingress")

	listed, err := in.api.Events.V2ListEvents(ctx, &events.V2ListEventsParams{ClusterID: &in.clusterID})
	require.NoError(t, err)
	in.verifyEvents(t, listed.Payload, hosts.Payload)
}

// verifyEvents checks that each change has exactly one event.
func (in *crashTest) verifyEvents(t *testing.T, all []*models.Event, hosts []*models.Host) {
	t.Helper()
	count := make(map[string]int) // by name and unique value
	state := map[string]string{in.clusterID.String(): models.ClusterStatusInsufficient}
	stages := make(map[string][]string)
	for _, ev := range all {
		subject := in.clusterID.String()
		if ev.HostID != nil {
			subject = ev.HostID.String()
		}
		switch ev.Name {
		case "host_registration_succeeded":
			state[subject] = models.HostStatusDiscovering
			fallthrough
		case "host_bootstrap_set", "host_deregistered":
			count[ev.Name+" "+subject]++
		case "cluster_status_updated", "host_status_updated":
			var moved struct {
				From    string `json:"src_status"`
				Host    string `json:"new_status"`
				Cluster string `json:"cluster_status"`
			}
			require.NoError(t, json.Unmarshal([]byte(ev.Props), &moved), ev.Props)
			require.Equal(t, state[subject], moved.From, "an event is missing or duplicated: %s\n%s", *ev.Message,
				messages(all, subject))
			state[subject] = moved.Host + moved.Cluster
		case "host_install_progress_updated":
			var reached struct{ Event string }
			require.NoError(t, json.Unmarshal([]byte(ev.Props), &reached), ev.Props)
			stage, _, _ := strings.Cut(strings.TrimSuffix(reached.Event, "."), " (")
			stages[subject] = append(stages[subject], stage)
		case "cluster_finalizing_stage_updated":
			count[*ev.Message]++
		default:
			count[ev.Name]++
		}
	}
	require.Equal(t, models.ClusterStatusInstalled, state[in.clusterID.String()])
	for _, h := range hosts {
		id := h.ID.String()
		require.Equal(t, models.HostStatusInstalled, state[id])
		require.Equal(t, 1, count["host_registration_succeeded "+id])
		require.Zero(t, count["host_deregistered "+id])
		in.verifyStages(t, h, stages[id])
	}
	for _, once := range []string{
		"cluster_registration_succeeded", "cluster_prepare_installation_started", "installer_files_generated",
		"ingress_certificate_received", "cluster_installation_completed",
	} {
		require.Equal(t, 1, count[once], once)
	}
	require.Zero(t, count["prepare_installation_failed"])
	for name, times := range count {
		if strings.HasPrefix(name, "Cluster ") || strings.HasPrefix(name, "host_bootstrap_set") {
			require.Equal(t, 1, times, name)
		}
	}
}

// verifyStages checks the stages in the events of a host: each reported stage must occur once and
// in order. The controller may find a report stored although its response was lost; the test has no
// event of the controller then.
func (in *crashTest) verifyStages(t *testing.T, h *models.Host, messages []string) {
	t.Helper()
	before := -1
	for _, stage := range messages {
		at := slices.Index(h.ProgressStages, models.HostStage(stage))
		require.Greater(t, at, before, "host %s: stage %q is repeated or out of order: %v", h.ID, stage, messages)
		before = at
	}
	require.Subset(t, messages, in.stages[h.ID.String()], "host %s", h.ID)
	require.Equal(t, string(models.HostStageDone), messages[len(messages)-1])
}

// messages returns the event messages of a host or cluster.
func messages(all []*models.Event, subject string) string {
	var lines strings.Builder
	for _, ev := range all {
		if ev.HostID == nil && ev.ClusterID.String() == subject || ev.HostID != nil && ev.HostID.String() == subject {
			fmt.Fprintf(&lines, "%s %s: %s\n", ev.EventTime, ev.Name, *ev.Message)
		}
	}
	return lines.String()
}

// verifyStore opens the data directory of the dead appliance and checks rows and files.
func (in *crashTest) verifyStore(t *testing.T) {
	t.Helper()
	db, err := store.Open(t.Context(), in.site.config.DataDir, store.Options{BlobGrace: time.Nanosecond,
		Keys: keyring.New(in.site.config.DataDir, keyring.Options{}).Open})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NoError(t, db.CollectBlobs(t.Context()))

	type subscription struct {
		Phase string `json:"phase"`
	}
	files := store.NewFiles("files")
	blobs := make(map[string]bool)
	var names, own []string
	require.NoError(t, db.View(func(tx *store.Tx) error {
		row, err := store.NewBucket[subscription]("subscriptions", 1).Get(tx, in.clusterID.String())
		require.NoError(t, err)
		require.Equal(t, "active", row.Phase)
		require.NoError(t, store.NewIndex("preparations").Keys(tx, "", func(key string) error {
			return fmt.Errorf("cluster %s is still being prepared", key)
		}))
		return files.Keys(tx, "", func(key string) error {
			info, err := files.Stat(tx, key)
			require.NoError(t, err)
			if info.Size > 64<<10 {
				blobs[info.SHA256+".sealed"] = true
			}
			if name, mine := strings.CutPrefix(key, in.clusterID.String()+"/"); mine {
				names = append(names, name)
				if strings.Count(name, "-") > 4 {
					own = append(own, name)
				}
			}
			return nil
		})
	}))
	for _, name := range []string{"kubeconfig", "kubeconfig-noingress", "kubeadmin-password", "bootstrap.ign",
		"master.ign", "worker.ign", "metadata.json"} {
		require.Contains(t, names, name)
	}
	require.Len(t, own, crashHosts, "each host has one ignition config of its own: %v", names)
	require.ElementsMatch(t, slices.Collect(maps.Keys(blobs)), blobFiles(t, filepath.Join(in.site.config.DataDir,
		"blobs")))
	entries, err := os.ReadDir(in.site.config.DataDir)
	require.NoError(t, err)
	for _, entry := range entries {
		// A start keeps a log with an incomplete last record, such as after a kill during the
		// first record of a log.
		name, _, _ := strings.Cut(entry.Name(), ".incomplete-")
		require.Contains(t, []string{"landfall.db", "landfall-1.wal", "landfall-2.wal", "landfall.committed",
			"landfall.lock", "blobs", "installers", "os-images", "audit", "site.key", "data.key", "seal.key",
			dataversion.FileName}, name)
	}
}

// blobFiles returns the names of all files below a directory, or none if it does not exist.
func blobFiles(t *testing.T, dir string) []string {
	t.Helper()
	names := []string{}
	err := filepath.WalkDir(dir, func(_ string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, entry.Name())
		}
		return err
	})
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
	}
	return names
}
