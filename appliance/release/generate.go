package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// Names under which the appliance stores and serves generated files.
const (
	BootstrapIgnition = "bootstrap.ign"
	MasterIgnition    = "master.ign"
	WorkerIgnition    = "worker.ign"
	ArbiterIgnition   = "arbiter.ign"
	Kubeconfig        = "kubeconfig-noingress"
	KubeadminPassword = "kubeadmin-password"
	InstallConfig     = "install-config.yaml"
	Metadata          = "metadata.json"
)

// GenerateRequest is the input of one cluster's files.
type GenerateRequest struct {
	ReleaseImage  string // the release's own pull spec by digest (Payload.Image), never a mirror's
	InstallConfig []byte // YAML or JSON
	// Manifests maps "manifests/<name>" or "openshift/<name>" to a manifest's content. It replaces
	// generated manifests; empty content is skipped.
	Manifests   map[string][]byte
	SingleNode  bool   // bootstrap in place
	BootstrapIP string // of the bootstrap host in the primary machine network; "" lets openshift-install choose
	Invoker     string // name of the installing program, which the cluster reports

	// WithoutMachines omits the manifests with which the cluster would create control-plane and
	// worker machines.
	WithoutMachines bool
}

// Generated holds the output of openshift-install.
type Generated struct {
	Files       map[string][]byte // by the names above; ArbiterIgnition only if openshift-install generated one
	ClusterName string
	ClusterID   string // UUID
	InfraID     string // cluster name and five characters
}

// Generate runs openshift-install for an installation: it creates the manifests, adds the request's
// manifests and patches, and creates the ignition configs. It uses a private directory and always
// removes it. If openshift-install fails, the error is a *RunError. If ctx ends, the program and
// its children are killed.
func (l *Library) Generate(ctx context.Context, inst *Installer, req GenerateRequest) (_ *Generated, err error) {
	if err := checkManifestNames(req.Manifests); err != nil {
		return nil, err
	}
	dir, err := newWorkDir(l.workDir())
	if err != nil {
		return nil, fmt.Errorf("prepare openshift-install: %w", diskError(err))
	}
	defer func() {
		if removeErr := dir.remove(); removeErr != nil {
			err = errors.Join(err, fmt.Errorf("remove the directory of openshift-install: %w", removeErr))
		}
	}()
	view := dir.path // of the program
	if l.sandbox != nil {
		view = l.sandbox.View(dir.path)
	}
	r := &run{library: l, installer: inst.Path, dir: dir.path, view: view, env: environment(view, req)}
	if err := dir.write(InstallConfig, req.InstallConfig); err != nil {
		return nil, fmt.Errorf("prepare openshift-install: %w", diskError(err))
	}
	if err := r.command(ctx, "create", "manifests"); err != nil {
		return nil, err
	}
	if req.WithoutMachines {
		if err := removeMachines(dir); err != nil {
			return nil, fmt.Errorf("remove the manifests of machines: %w", err)
		}
	}
	if err := layManifests(dir, req.Manifests); err != nil {
		return nil, fmt.Errorf("add the cluster's manifests: %w", diskError(err))
	}
	if err := applyPatches(dir); err != nil {
		return nil, err
	}
	target := "ignition-configs"
	if req.SingleNode {
		target = "single-node-ignition-config"
	}
	if err := r.command(ctx, "create", target); err != nil {
		return nil, err
	}
	return collect(dir, req)
}

// environment returns the environment variables of openshift-install. It passes only PATH of the
// appliance's own environment.
func environment(dir string, req GenerateRequest) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir,
		"OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE=" + req.ReleaseImage,
	}
	if req.Invoker != "" {
		env = append(env, "OPENSHIFT_INSTALL_INVOKER="+req.Invoker)
	}
	if req.BootstrapIP != "" {
		env = append(env, "OPENSHIFT_INSTALL_BOOTSTRAP_NODE_IP="+req.BootstrapIP)
	}
	return env
}

// checkManifestNames rejects names outside of the two directories that openshift-install reads.
func checkManifestNames(manifests map[string][]byte) error {
	for name := range manifests {
		directory, base := path.Split(name)
		if (directory != "manifests/" && directory != "openshift/") || base == "" || strings.HasPrefix(base, ".") {
			return fmt.Errorf("manifest %q must be named manifests/<file> or openshift/<file>", name)
		}
	}
	return nil
}

// removeMachines deletes the manifests of machines, as the documentation for user-provisioned hosts
// requires.
func removeMachines(dir *workDir) error {
	for _, pattern := range []string{
		"*_openshift-cluster-api_master-machines-*.yaml", "*_openshift-cluster-api_worker-machineset-*.yaml",
		"*_openshift-machine-api_master-control-plane-machine-set*.yaml",
	} {
		found, err := fs.Glob(dir.root.FS(), "openshift/"+pattern)
		if err != nil {
			return err
		}
		for _, file := range found {
			if err := dir.root.Remove(file); err != nil {
				return err
			}
		}
	}
	return nil
}

func layManifests(dir *workDir, manifests map[string][]byte) error {
	for name, content := range manifests {
		if len(content) == 0 {
			continue
		}
		if err := dir.write(name, content); err != nil {
			return err
		}
	}
	return nil
}

// collect reads the output of openshift-install. A single node needs only the bootstrap config; the
// ignition configs of the roles become empty configs of the same version.
func collect(dir *workDir, req GenerateRequest) (*Generated, error) {
	sources := map[string]string{
		BootstrapIgnition: "bootstrap.ign", MasterIgnition: "master.ign", WorkerIgnition: "worker.ign",
		Kubeconfig: "auth/kubeconfig", KubeadminPassword: "auth/kubeadmin-password", Metadata: "metadata.json",
	}
	if req.SingleNode {
		sources[BootstrapIgnition] = "bootstrap-in-place-for-live-iso.ign"
		delete(sources, MasterIgnition)
		delete(sources, WorkerIgnition)
	}
	g := &Generated{Files: map[string][]byte{InstallConfig: req.InstallConfig}}
	for name, source := range sources {
		data, err := dir.read(source)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("openshift-install succeeded but did not create %s", source)
		}
		if err != nil {
			return nil, fmt.Errorf("read the output of openshift-install: %w", err)
		}
		g.Files[name] = data
	}
	if err := g.addOptional(dir, req); err != nil {
		return nil, err
	}
	var metadata struct{ ClusterName, ClusterID, InfraID string }
	if err := json.Unmarshal(g.Files[Metadata], &metadata); err != nil {
		return nil, fmt.Errorf("read metadata.json of openshift-install: %w", err)
	}
	if metadata.ClusterID == "" || metadata.InfraID == "" {
		return nil, errors.New("metadata.json of openshift-install has no clusterID or no infraID")
	}
	g.ClusterName, g.ClusterID, g.InfraID = metadata.ClusterName, metadata.ClusterID, metadata.InfraID
	return g, nil
}

func (g *Generated) addOptional(dir *workDir, req GenerateRequest) error {
	if req.SingleNode {
		var config struct {
			Ignition struct {
				Version string `json:"version"`
			} `json:"ignition"`
		}
		if err := json.Unmarshal(g.Files[BootstrapIgnition], &config); err != nil {
			return fmt.Errorf("read the ignition config of openshift-install: %w", err)
		}
		empty, err := json.Marshal(config)
		if err != nil {
			return err
		}
		g.Files[MasterIgnition], g.Files[WorkerIgnition] = empty, empty
		return nil
	}
	arbiter, err := dir.read(ArbiterIgnition)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the output of openshift-install: %w", err)
	}
	g.Files[ArbiterIgnition] = arbiter
	return nil
}
