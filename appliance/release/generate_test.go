package release

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate/registry"
)

const (
	waitFor = time.Minute
	tick    = 5 * time.Millisecond
)

const threeNodes = `
apiVersion: v1
baseDomain: example.com
metadata: {name: demo}
pullSecret: '{"auths":{"mirror.example.com:5000":{"auth":"dTpw"}}}'
networking:
  networkType: OVNKubernetes
  machineNetwork: [{cidr: 192.168.100.0/24}]
  clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 23}]
  serviceNetwork: [172.30.0.0/16]
controlPlane: {name: master, replicas: 3}
compute: [{name: worker, replicas: 0}]
platform:
  baremetal:
    provisioningNetwork: Disabled
    apiVIPs: [192.168.100.2]
    ingressVIPs: [192.168.100.3]
    hosts:
    - {name: a, role: master, bootMACAddress: "52:54:00:00:00:01"}
    - {name: b, role: master, bootMACAddress: "52:54:00:00:00:02"}
    - {name: c, role: master, bootMACAddress: "52:54:00:00:00:03"}
`

const singleNode = `
apiVersion: v1
baseDomain: example.com
metadata: {name: sno}
pullSecret: '{"auths":{"mirror.example.com:5000":{"auth":"dTpw"}}}'
networking:
  networkType: OVNKubernetes
  machineNetwork: [{cidr: 192.168.100.0/24}]
  clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 23}]
  serviceNetwork: [172.30.0.0/16]
controlPlane: {name: master, replicas: 1}
compute: [{name: worker, replicas: 0}]
platform: {none: {}}
bootstrapInPlace: {installationDisk: /dev/sda}
`

func TestGenerate(t *testing.T) {
	l, pushed := standIn(t, registry.Payload{})
	p, err := l.Payload(context.Background(), pushed.Release, "x86_64", nil)
	require.NoError(t, err)
	inst, release, err := l.Installer(context.Background(), p, nil, nil)
	require.NoError(t, err)
	defer release()

	version, err := exec.CommandContext(context.Background(), inst.Path, "version").Output()
	require.NoError(t, err)
	require.Equal(t, "openshift-install 4.20.8-standin\nbuilt from commit "+strings.Repeat("0", 40)+"\nrelease image "+
		pushed.Release+"\nrelease architecture linux/amd64\n", string(version))

	g, err := l.Generate(context.Background(), inst, GenerateRequest{
		ReleaseImage: p.Image, InstallConfig: []byte(threeNodes), Invoker: "landfall", BootstrapIP: "192.168.100.10",
		Manifests: map[string][]byte{"manifests/mine.yaml": []byte("kind: Mine\n"), "openshift/empty.yaml": nil},
	})
	require.NoError(t, err)
	require.Equal(t, "demo", g.ClusterName)
	require.Len(t, g.ClusterID, 36)
	require.Regexp(t, `^demo-[a-z0-9]{5}$`, g.InfraID)
	require.ElementsMatch(t, []string{BootstrapIgnition, MasterIgnition, WorkerIgnition, Kubeconfig, KubeadminPassword,
		InstallConfig, Metadata}, keys(g.Files))
	require.Equal(t, threeNodes, string(g.Files[InstallConfig]))
	require.Contains(t, string(g.Files[MasterIgnition]), "https://192.168.100.2:22623/config/master")
	require.Contains(t, string(g.Files[BootstrapIgnition]), "/opt/openshift/manifests/mine.yaml")
	require.NotContains(t, string(g.Files[BootstrapIgnition]), "empty.yaml")
	requireNoUnfinishedFiles(t, l)

	g, err = l.Generate(context.Background(), inst, GenerateRequest{ReleaseImage: p.Image,
		InstallConfig: []byte(singleNode), SingleNode: true})
	require.NoError(t, err)
	require.Contains(t, string(g.Files[BootstrapIgnition]), "/usr/local/bin/install-to-disk.sh")
	require.JSONEq(t, `{"ignition":{"version":"3.2.0"}}`, string(g.Files[MasterIgnition]))
	require.JSONEq(t, `{"ignition":{"version":"3.2.0"}}`, string(g.Files[WorkerIgnition]))

	_, err = l.Generate(context.Background(), inst,
		GenerateRequest{InstallConfig: []byte(strings.Replace(threeNodes, "192.168.100.2]", "10.0.0.2]", 1))})
	var failed *RunError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "create manifests", failed.Step)
	require.Equal(t, 1, failed.ExitCode)
	require.ErrorContains(t, err,
		`platform.baremetal.apiVIPs: Invalid value: "10.0.0.2": IP expected to be in one of the machine networks: 192.168.100.0/24`)
	require.NotContains(t, failed.Summary, "level=")
	requireNoUnfinishedFiles(t, l)
}

func keys[V any](m map[string]V) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	return all
}

// script returns an Installer that runs shell commands. $1 and $2 are the step, $4 is the
// directory.
func script(t *testing.T, lines string) *Installer {
	path := filepath.Join(t.TempDir(), "openshift-install")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+lines+"\n"), 0o700))
	return &Installer{Path: path}
}

const good = `mkdir -p "$4/auth" "$4/manifests"; for f in bootstrap.ign master.ign worker.ign auth/kubeconfig auth/kubeadmin-password; do echo "{}" > "$4/$f"; done
echo '{"clusterName":"c","clusterID":"id","infraID":"c-12345"}' > "$4/metadata.json"`

func TestGenerate_environmentOfTheProgram(t *testing.T) {
	t.Setenv("LANDFALL_SECRET", "x")
	t.Setenv("OPENSHIFT_INSTALL_OS_IMAGE_OVERRIDE", "x")
	l := newSite(t).library()
	seen := filepath.Join(t.TempDir(), "seen")
	g, err := l.Generate(context.Background(), script(t, good+`
env | sed "s,$4,DIR," | grep -v '^_=\|^PWD=\|^OLDPWD=\|^SHLVL=\|^PATH=' | sort > `+seen+`; pwd >> `+seen+`; echo "$*" | sed "s,$4,DIR," >> `+seen+`; stat -c %a "$4" "$4/install-config.yaml" >> `+seen), GenerateRequest{
		ReleaseImage: "quay.io/r@sha256:1", InstallConfig: []byte("x"), Invoker: "landfall", BootstrapIP: "10.0.0.1",
	})
	require.NoError(t, err)
	require.Equal(t, "c-12345", g.InfraID)
	data, err := os.ReadFile(seen)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	require.Equal(t, []string{
		"HOME=DIR", "OPENSHIFT_INSTALL_BOOTSTRAP_NODE_IP=10.0.0.1", "OPENSHIFT_INSTALL_INVOKER=landfall",
		"OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE=quay.io/r@sha256:1", "TMPDIR=DIR",
	}, lines[:5])
	require.True(t, strings.HasPrefix(lines[5], l.workDir()))
	require.Equal(t, []string{"create ignition-configs --dir DIR", "700", "600"}, lines[6:], "arguments, and modes")
	requireNoUnfinishedFiles(t, l)
}

func TestGenerate_failureOfTheProgram(t *testing.T) {
	l := newSite(t).library()
	for name, c := range map[string]struct {
		script  string
		code    int
		step    string
		message string
	}{
		"fatal": {
			`echo 'level=info msg="Consuming"' >&2; echo 'level=fatal msg="failed: \"x\" is bad"' >&2; exit 3`,
			3, "create manifests", `failed: "x" is bad`},
		"without output": {`exit 1`, 1, "create manifests", "it failed without output"},
		"second step":    {`[ "$2" = manifests ] && exit 0; echo boom; exit 7`, 7, "create ignition-configs", "boom"},
		"signal": {`echo dying; kill -9 $$`, -1, "create manifests",
			"ended by signal: killed; the end of its output: dying"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := l.Generate(context.Background(), script(t, c.script), GenerateRequest{})
			var failed *RunError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, c.code, failed.ExitCode)
			require.Equal(t, c.step, failed.Step)
			require.Equal(t, c.message, failed.Summary)
			requireNoUnfinishedFiles(t, l)
		})
	}
	t.Run("no program", func(t *testing.T) {
		_, err := l.Generate(context.Background(), &Installer{Path: "/nowhere/openshift-install"}, GenerateRequest{})
		require.ErrorContains(t, err, "openshift-install create manifests: cannot be started: ")
	})
	t.Run("program of another system", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "openshift-install")
		require.NoError(t, os.WriteFile(path, []byte("\xcf\xfa\xed\xfe of macOS"), 0o755))
		_, err := l.Generate(context.Background(), &Installer{Path: path}, GenerateRequest{})
		require.ErrorContains(t, err, "is no program for "+runtime.GOOS+"/"+runtime.GOARCH)
		require.ErrorContains(t, err, "install from a Linux machine")
	})
	for missing, message := range map[string]string{
		"bootstrap.ign": "did not create bootstrap.ign", "auth/kubeconfig": "did not create auth/kubeconfig",
		"metadata.json": "did not create metadata.json",
	} {
		_, err := l.Generate(context.Background(), script(t, good+`; rm "$4/`+missing+`"`), GenerateRequest{})
		require.ErrorContains(t, err, message)
	}
	_, err := l.Generate(context.Background(), script(t, good+`; echo '{}' > "$4/metadata.json"`), GenerateRequest{})
	require.ErrorContains(t, err, "has no clusterID or no infraID")
}

func TestCannotRun_otherSystems(t *testing.T) {
	require.Empty(t, CannotRun("linux"))
	require.Contains(t, CannotRun("darwin"), "this is darwin. Everything else works; install from a Linux machine")
}

func TestGenerate_manifestNames(t *testing.T) {
	l := newSite(t).library()
	for _, name := range []string{"x.yaml", "/etc/passwd", "manifests/", "manifests/../x", "manifests/a/b",
		"openshift/.hidden", "tls/ca.crt"} {
		_, err := l.Generate(context.Background(), script(t, good),
			GenerateRequest{Manifests: map[string][]byte{name: []byte("x")}})
		require.ErrorContains(t, err, "must be named manifests/<file> or openshift/<file>", name)
	}
}

// lingering starts a child process, prints the process IDs of both, and waits.
func lingering(t *testing.T) (*Installer, string) {
	pids := filepath.Join(t.TempDir(), "pids")
	return script(t, `sleep 600 & echo "$! $$" > `+pids+`.new; mv `+pids+`.new `+pids+`; echo waiting; wait`), pids
}

func requireGone(t *testing.T, pids string) {
	data, err := os.ReadFile(pids)
	require.NoError(t, err)
	for _, pid := range strings.Fields(string(data)) {
		require.Eventually(t, func() bool {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			return errors.Is(err, os.ErrNotExist) || strings.Contains(string(stat), ") Z ")
		}, waitFor, tick, "process %s was not killed", pid)
	}
}

func TestGenerate_canceled(t *testing.T) {
	l := newSite(t).library()
	inst, pids := lingering(t)
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error)
	go func() {
		_, err := l.Generate(ctx, inst, GenerateRequest{})
		failed <- err
	}()
	require.Eventually(t, func() bool { _, err := os.Stat(pids); return err == nil }, waitFor, tick)
	cancel()
	err := <-failed
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, "openshift-install create manifests: stopped before it was done")
	requireGone(t, pids)
	requireNoUnfinishedFiles(t, l)
}

func TestGenerate_timeout(t *testing.T) {
	l := newSite(t).library(func(o *Options) { o.CommandTimeout = time.Second })
	inst, pids := lingering(t)
	_, err := l.Generate(context.Background(), inst, GenerateRequest{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.EqualError(t, err,
		"openshift-install create manifests: stopped because it was not done after 1s; the end of its output: waiting")
	requireGone(t, pids)
	requireNoUnfinishedFiles(t, l)
}

func TestGenerate_killsLeftProcesses(t *testing.T) {
	l := newSite(t).library()
	pids := filepath.Join(t.TempDir(), "pids")
	_, err := l.Generate(context.Background(), script(t, `sleep 600 & echo $! > `+pids+"\n"+good), GenerateRequest{})
	require.NoError(t, err, "Generate waited for a child process that keeps the output open")
	requireGone(t, pids)
	requireNoUnfinishedFiles(t, l)
}

func TestGenerate_endlessOutput(t *testing.T) {
	l := newSite(t).library()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := l.Generate(context.Background(),
		script(t, `head -c 100000000 /dev/zero; echo; echo 'level=fatal msg="at last"'; exit 1`), GenerateRequest{})
	runtime.ReadMemStats(&after)
	require.EqualError(t, err, "openshift-install create manifests: at last")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20), "Generate kept the whole output")
}

func TestGenerate_noOutputFiles(t *testing.T) {
	l := newSite(t).library()
	_, err := l.Generate(context.Background(), script(t, `exit 0`), GenerateRequest{})
	require.ErrorContains(t, err, "openshift-install succeeded but did not create ")
	requireNoUnfinishedFiles(t, l)
}

func TestSummarize(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for name, c := range map[string]struct{ output, want string }{
		"quoted": {`level=fatal msg="a \"b\""`, `a "b"`},
		"unquoted": {"level=fatal msg=failed to fetch Master Machines: bad",
			"failed to fetch Master Machines: bad"},
		"with a time":            {`time="2026-01-02T03:04:05Z" level=fatal msg="late"`, "late"},
		"fatal wins over errors": {"level=fatal msg=first\nlevel=error msg=second\n", "first"},
		"last error": {"level=error msg=one\nlevel=info msg=x\nlevel=error msg=two\nlevel=info msg=y",
			"two"},
		"several fatal messages": {"level=fatal msg=one\nlevel=fatal msg=two", "one; two"},
		"panic":                  {"panic: oh\n\ngoroutine 1 [running]:\nmain.main()\n", "main.main()"},
		"empty output":           {"\n\n", "it failed without output"},
		"only info":              {"level=info msg=hello", "hello"},
		"too long":               {"level=fatal msg=" + long + "end", "… " + long[:summaryLimit-3] + "end"},
	} {
		require.Equal(t, c.want, summarize(c.output), name)
	}
}

func TestTail(t *testing.T) {
	var tl tail
	for range 10_000 {
		n, err := tl.Write([]byte("0123456789"))
		require.NoError(t, err)
		require.Equal(t, 10, n)
	}
	n, err := tl.Write([]byte("end"))
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Len(t, tl.String(), outputTail)
	require.True(t, strings.HasSuffix(tl.String(), "789end"))
	require.LessOrEqual(t, cap(tl.data), 4*outputTail)
}
