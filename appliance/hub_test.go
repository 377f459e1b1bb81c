package appliance_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate"
	"landfall/appliance/simulate/redfish"
	"landfall/logtest"
)

// kubectlOnce builds kubectl when a test first needs it.
type kubectlOnce struct {
	once sync.Once
	dir  string
	err  error
}

// program returns the path of kubectl.
func (k *kubectlOnce) program() (string, error) {
	k.once.Do(func() {
		if k.dir, k.err = os.MkdirTemp("", "landfall-kubectl-"); k.err != nil {
			return
		}
		build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", k.dir, "./kubectl")
		build.Dir = filepath.Join("..", "web", "clients") // the module of the clients
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			k.err = fmt.Errorf("build kubectl: %w: %s", err, output)
		}
	})
	return filepath.Join(k.dir, "kubectl"), k.err
}

// end removes the built program.
func (k *kubectlOnce) end() error {
	if k.dir == "" {
		return nil
	}
	return os.RemoveAll(k.dir)
}

// hub is an appliance with its Kubernetes API and a kubectl for it.
type hub struct {
	*site
	*connection
	dir     string
	program string // path of kubectl
}

// openHub starts an appliance and waits for its Kubernetes API.
func (s *site) openHub(t *testing.T) *hub {
	t.Helper()
	s.config.Kubernetes.Enabled, s.config.Kubernetes.ImageSettles = true, 300*time.Millisecond
	s.logger = logtest.New(t, slog.LevelWarn)
	d := &hub{site: s, connection: s.connect(t), dir: t.TempDir()}
	d.prepareKubectl(t)
	awaitReady(t, func() answer { return d.call(t, http.MethodGet, "/readyz", nil) })
	return d
}

// prepareKubectl builds kubectl, which takes minutes with an empty build cache, and writes its
// kubeconfig.
func (d *hub) prepareKubectl(t *testing.T) {
	t.Helper()
	var err error
	d.program, err = kubectlProgram.program()
	require.NoError(t, err)
	d.writeKubeconfig(t, d.site, filepath.Join(d.dir, "kubeconfig"))
}

// try runs kubectl and returns its standard output. The error contains its standard error.
func (d *hub) try(ctx context.Context, stdin string, args ...string) (string, error) {
	kubectl := exec.CommandContext(ctx, d.program, append([]string{"--kubeconfig", filepath.Join(d.dir, "kubeconfig"),
		"--cache-dir", filepath.Join(d.dir, "cache")}, args...)...)
	kubectl.Stdin = strings.NewReader(stdin)
	var output, complained bytes.Buffer
	kubectl.Stdout, kubectl.Stderr = &output, &complained
	if err := kubectl.Run(); err != nil {
		return output.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, complained.String())
	}
	return output.String(), nil
}

// kubectl runs kubectl, which must succeed.
func (d *hub) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	output, err := d.try(t.Context(), "", args...)
	require.NoError(t, err)
	return output
}

// siteValues are the values in the templates of sites.
type siteValues struct{ BMC, PullSecret string }

// apply applies the documents of a site in a random order, after its namespaces, until all are
// accepted.
func (d *hub) apply(t *testing.T, name string, with siteValues, namespaces ...string) {
	t.Helper()
	shuffled, err := d.documents(name, with, namespaces...)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s was applied in this order:\n%s", name, kindsIn(shuffled))
		}
	})
	if _, err := d.try(t.Context(), shuffled, "apply", "-f", "-"); err != nil {
		// Sites are applied at the same time, and share a release.
		require.Regexp(t, "not found|already exists", err.Error(), "only namespaces may be missing at first")
		_, err = d.try(t.Context(), shuffled, "apply", "-f", "-")
		require.NoError(t, err)
	}
}

func kindsIn(documents string) (kinds string) {
	for line := range strings.Lines(documents) {
		if strings.HasPrefix(line, "kind: ") {
			kinds += line
		}
	}
	return kinds
}

// documents returns the manifests of a site and of its namespaces in a random order.
func (d *hub) documents(name string, with siteValues, namespaces ...string) (string, error) {
	with.PullSecret = pullSecret
	text, err := os.ReadFile(filepath.Join("testdata", "sites", name))
	if err != nil {
		return "", err
	}
	manifests, err := template.New(name).Parse(string(text))
	if err != nil {
		return "", err
	}
	var filled bytes.Buffer
	if err := manifests.Execute(&filled, with); err != nil {
		return "", err
	}
	documents := strings.Split(filled.String(), "\n---\n")
	for _, namespace := range namespaces {
		documents = append(documents, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: "+namespace+"\n")
	}
	documents = append(documents,
		"apiVersion: hive.openshift.io/v1\nkind: ClusterImageSet\nmetadata:\n  name: openshift-release\nspec:\n  "+
			"releaseImage: "+d.release.Release+"\n")
	chance := rand.New(rand.NewPCG(uint64(len(documents)), 0))
	chance.Shuffle(len(documents), func(i, j int) { documents[i], documents[j] = documents[j], documents[i] })
	return strings.Join(documents, "\n---\n"), nil
}

// waitLimit limits a wait. An installation takes twenty seconds of CPU time under the race
// detector, and several run in parallel with other tests.
const waitLimit = 4 * time.Minute

// wait runs kubectl wait with a condition: "condition=Completed", "jsonpath={…}=…", "delete".
func (d *hub) wait(t *testing.T, namespace, object, what string) {
	t.Helper()
	_, err := d.try(t.Context(), "", "wait", "-n", namespace, "--for="+what, object, "--timeout="+waitLimit.String())
	if err != nil {
		shown, showErr := d.try(t.Context(), "", "get", "-n", namespace, object, "-o",
			`jsonpath={.status.conditions} {.status.debugInfo}`)
		events, eventsErr := d.try(t.Context(), "", "get", "events", "-n", namespace)
		require.NoError(t, err, "%v %v\n%s\n%s", showErr, eventsErr, shown, events)
	}
}

// machine is a simulated server behind a simulated BMC.
type machine struct {
	*redfish.BMC
	address string // address of the BMC in the form of BareMetalHosts
}

func newMachine(t *testing.T, profile, hostname, mac string) *machine {
	t.Helper()
	logger := logtest.New(t, slog.LevelWarn)
	servers := &simulate.Servers{First: 1, Speed: 1000, Planned: []simulate.Planned{{Hostname: hostname, MAC: mac}},
		Logger: logger}
	known, ok := redfish.ProfileByName(profile)
	require.True(t, ok)
	stand := redfish.New(redfish.Options{
		Profile: known, Username: "root", Password: "calvin", MACs: []string{mac}, Serial: hostname, Dir: t.TempDir(),
		PowerDelay: time.Millisecond, Logger: logger,
		Boot: func(ctx context.Context, image *redfish.Image) {
			if err := servers.Boot(ctx, 1, image.Path); err != nil && ctx.Err() == nil {
				logger.Warn("a simulated server ended", "server", hostname, "error", err)
			}
		},
	})
	require.NoError(t, stand.Listen("127.0.0.1:0", nil))
	t.Cleanup(func() {
		require.NoError(t, stand.Close())
		servers.Close()
	})
	return &machine{stand, "redfish-virtualmedia+" + stand.URL() + "/redfish/v1/Systems/" + known.SystemID}
}
