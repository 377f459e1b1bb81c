package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	"landfall/appliance/config"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/abi"
	"landfall/appliance/engine"
	"landfall/appliance/mirror"
	"landfall/store"
	"landfall/web/api"
	"landfall/web/console"
	"landfall/web/problem"
)

// abiRows are the folders that clusters were made from, by the clusters' ids. They hold pull
// secrets and credentials, so each is sealed as a whole.
var abiRows = store.NewBucket[string]("abi-folders", 1)

// abiRecord is a folder as it was given, and how the cluster looked when it had been made from it.
type abiRecord struct {
	InfraEnvID string     `json:"infra_env_id"`
	Files      []abi.File `json:"files"`
	Before     abi.Values `json:"before"`
	Hosts      []abi.Host `json:"hosts"`
	Mirror     string     `json:"mirror,omitempty"` // the import of the folder's mirror rules
}

// abiFolders makes clusters of the folders of the agent-based installer, and folders of clusters.
type abiFolders struct {
	db       *store.DB
	engine   *engine.Engine
	mirror   *siteMirror
	releases []config.ReleaseImage
	log      *slog.Logger

	applying sync.Mutex // held while a host is given what its folder says

	mu   sync.Mutex
	envs map[string]folderHosts // infra-envs whose hosts a folder speaks of
}

func newABIFolders(a *Appliance) *abiFolders {
	return &abiFolders{db: a.db, engine: a.engine, mirror: a.mirror, releases: a.config.ReleaseImages, log: a.log,
		envs: map[string]folderHosts{}}
}

// Import makes a cluster and its infra-env of a folder. With check it only says what would come of
// it.
func (f *abiFolders) Import(ctx context.Context, files []abi.File, check bool) (*console.ABIImport, error) {
	site, err := abi.Read(files)
	if err != nil {
		return nil, folderProblem(err)
	}
	params, err := f.describe(site)
	if err != nil {
		return nil, folderProblem(err)
	}
	rules, err := mirrorOf(site)
	if err != nil {
		return nil, mirrorProblem(err)
	}
	result := &console.ABIImport{Name: conv.Value(params.Name), OpenshiftVersion: conv.Value(params.OpenshiftVersion),
		Hosts: len(site.Hosts), Notes: site.Notes}
	if check {
		return result.Filled(), nil
	}
	record := &abiRecord{Files: site.Files, Hosts: site.Hosts}
	cluster, err := f.make(ctx, site, params, rules, record)
	if err != nil {
		return nil, api.Problem(err)
	}
	result.ClusterID, result.InfraEnvID = cluster.ID.String(), record.InfraEnvID
	f.log.Info("A cluster was made of a folder of the agent-based installer.", "cluster", result.ClusterID, "name",
		cluster.Name, "files", len(site.Files), "hosts", len(site.Hosts))
	return result.Filled(), nil
}

func folderProblem(err error) error {
	if refused, ok := errors.AsType[*abi.FolderError](err); ok {
		return &problem.Error{Status: http.StatusUnprocessableEntity, Reason: refused.Error(), Err: err}
	}
	return api.Problem(err)
}

// describe is the cluster that a folder describes, with its release.
func (f *abiFolders) describe(site *abi.Site) (*models.ClusterCreateParams, error) {
	params := site.Values.ClusterParams()
	release, err := f.release(site, params.CPUArchitecture)
	if err != nil {
		return nil, err
	}
	params.OpenshiftVersion, params.CPUArchitecture = &release.OpenshiftVersion,
		apiArchitecture(release.CPUArchitecture)
	if err := params.Validate(strfmt.Default); err != nil {
		return nil, problem.Schema(err)
	}
	return params, nil
}

// release finds the configuration's release that a folder names: by its pull spec, its digest, or
// the version in its tag.
func (f *abiFolders) release(site *abi.Site, arch string) (config.ReleaseImage, error) {
	named, _ := site.Values[abi.ReleaseImage].(string)
	_, digest, byDigest := strings.Cut(named, "@")
	tag := named[strings.LastIndexAny(named, ":/")+1:]
	var chosen *config.ReleaseImage
	for i, release := range f.releases {
		if arch != "" && apiArchitecture(release.CPUArchitecture) != arch {
			continue
		}
		switch {
		case named == release.URL, byDigest && strings.HasSuffix(release.URL, "@"+digest):
			return release, nil
		case named == "" && (chosen == nil || release.Default), !byDigest && (tag == release.OpenshiftVersion ||
			strings.HasPrefix(tag, release.OpenshiftVersion+"-")):
			chosen = &f.releases[i]
		}
	}
	if chosen == nil {
		return config.ReleaseImage{}, site.Refuse(abi.ReleaseImage,
			"is %q, which the appliance does not have; add it under release_images in the configuration", named)
	}
	if named == "" {
		site.Notes = append(site.Notes, abi.Problem{File: "install-config.yaml", Text: "names no release; it will be " +
			chosen.OpenshiftVersion})
	} else {
		site.Notes = append(site.Notes, abi.Problem{File: "cluster-manifests/cluster-image-set.yaml",
			Text: "names its release by a tag; the configuration's " + chosen.URL + " is installed"})
	}
	return *chosen, nil
}

// mirrorOf are the mirror rules of a folder, nil if it has none.
func mirrorOf(site *abi.Site) (*mirror.Import, error) {
	var documents []mirror.Document
	if conf, _ := site.Values[abi.RegistriesConf].(string); mentions(conf, "[[registry]]") {
		documents = append(documents, mirror.Document{Name: string(abi.RegistriesConf), Data: []byte(conf)})
	}
	if bundle, _ := site.Values[abi.CABundle].(string); strings.TrimSpace(bundle) != "" {
		documents = append(documents, mirror.Document{Name: string(abi.CABundle), Data: []byte(bundle)})
	}
	if sources := site.Values[abi.DigestSources]; sources != nil {
		text, err := json.Marshal(map[string]any{"imageDigestSources": sources})
		if err != nil {
			return nil, err
		}
		documents = append(documents, mirror.Document{Name: "install-config.yaml", Data: text})
	}
	if len(documents) == 0 {
		return nil, nil
	}
	return mirror.CollectFiles(mirrorName(site), documents)
}

// mentions tells whether a line that is no comment begins with a text: the installer's own
// registries.conf is all comments.
func mentions(text, what string) bool {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), what) {
			return true
		}
	}
	return false
}

func mirrorName(site *abi.Site) string { return fmt.Sprintf("abi-%v", site.Values[abi.Name]) }

// make makes what a folder describes. What was made before a failure is taken back.
func (f *abiFolders) make(ctx context.Context, site *abi.Site, params *models.ClusterCreateParams, rules *mirror.Import,
	record *abiRecord) (_ *models.Cluster, err error) {
	var undo []func(context.Context) error
	defer func() {
		if err != nil {
			for _, back := range slices.Backward(undo) {
				err = errors.Join(err, back(context.WithoutCancel(ctx)))
			}
		}
	}()
	cluster, err := f.engine.RegisterCluster(ctx, params)
	if err != nil {
		return nil, err
	}
	id := cluster.ID.String()
	undo = append(undo, func(ctx context.Context) error { return f.engine.DeregisterCluster(ctx, id) })
	if rules != nil { // before the infra-env, whose image has them
		level := mirror.Level{Cluster: id}
		record.Mirror = mirrorName(site)
		if _, err := f.mirror.Import(ctx, level, record.Mirror, rules); err != nil {
			return nil, err
		}
		undo = append(undo, func(ctx context.Context) error { return f.mirror.Remove(ctx, level, record.Mirror) })
	}
	envParams := site.Values.InfraEnvParams(*cluster.ID)
	envParams.CPUArchitecture = params.CPUArchitecture
	if err := envParams.Validate(strfmt.Default); err != nil {
		return nil, problem.Schema(err)
	}
	env, err := f.engine.RegisterInfraEnv(ctx, envParams)
	if err != nil {
		return nil, err
	}
	record.InfraEnvID = env.ID.String()
	override, err := site.Values.Override()
	if err != nil {
		return nil, err
	}
	if override != "" {
		if err := f.engine.SetInstallConfigOverride(ctx, id, override); err != nil {
			return nil, err
		}
	}
	for _, manifest := range site.Manifests {
		if _, err := f.engine.CreateManifest(ctx, id, engine.Manifest{Folder: models.ManifestFolderOpenshift,
			Name: manifest.Name, Content: manifest.Data}); err != nil {
			return nil, fmt.Errorf("openshift/%s: %w", manifest.Name, err)
		}
	}
	record.Before = maps.Clone(site.Values)
	if record.Before, err = f.look(id, record); err != nil {
		return nil, err
	}
	return cluster, f.keep(ctx, id, record)
}

// imported is the import of a name for a cluster, nil if there is none.
func (f *abiFolders) imported(cluster, name string) (*mirror.Import, error) {
	all, err := f.mirror.imports()
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if one.Name == name && one.Level.Cluster == cluster {
			return &one.Import, nil
		}
	}
	return nil, nil
}

func (f *abiFolders) keep(ctx context.Context, cluster string, record *abiRecord) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	sealed, err := f.engine.Secrets.Seal(string(text))
	if err != nil {
		return fmt.Errorf("seal the folder: %w", err)
	}
	if err := f.db.Update(ctx, func(tx *store.Tx) error { return abiRows.Put(tx, cluster, &sealed) }); err != nil {
		return err
	}
	f.expect(record.InfraEnvID, folderHosts{cluster, record.Hosts, map[string]bool{}})
	return nil
}

func (f *abiFolders) open(sealed string) (*abiRecord, error) {
	text, err := f.engine.Secrets.Open(sealed)
	if err != nil {
		return nil, fmt.Errorf("open the folder that a cluster was made of: %w", err)
	}
	record := new(abiRecord)
	return record, json.Unmarshal([]byte(text), record)
}

// record is the folder that a cluster was made of; one without files if it was made otherwise.
func (f *abiFolders) record(cluster string) (*abiRecord, error) {
	record := new(abiRecord)
	err := f.db.View(func(tx *store.Tx) error {
		sealed, err := abiRows.Get(tx, cluster)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err == nil {
			record, err = f.open(*sealed)
		}
		return err
	})
	return record, err
}

// look is what a cluster has now of the values that folders state.
func (f *abiFolders) look(id string, record *abiRecord) (abi.Values, error) {
	cluster, err := f.engine.Cluster(id)
	if err != nil {
		return nil, err
	}
	unshown, err := f.engine.Unshown(id)
	if err != nil {
		return nil, err
	}
	envs, err := f.engine.InfraEnvs(id)
	if err != nil {
		return nil, err
	}
	var env *models.InfraEnv
	for _, candidate := range envs {
		if env == nil || candidate.ID.String() == record.InfraEnvID {
			env = candidate
		}
	}
	now, err := abi.ValuesOf(cluster, env)
	if err != nil {
		return nil, err
	}
	now[abi.PullSecret] = strings.TrimSpace(unshown.PullSecret)
	if unshown.DerivedMachineNetwork {
		delete(now, abi.MachineNetworks)
	}
	for field, value := range record.Before { // what a cluster does not hold is as the folder says
		if abi.OfFolder(field) {
			now[field] = value
		}
	}
	if err := f.lookAtMirror(now, id, record); err != nil {
		return nil, err
	}
	for _, host := range record.Hosts {
		found, calls, err := f.host(env, cluster.Hosts, host)
		if err != nil {
			return nil, err
		}
		if found == nil {
			continue
		}
		name := found.RequestedHostname
		if host.Hostname == "" && name == calls {
			name = "" // nobody gave it that name
		}
		now.SetHost(host, name, string(found.Role))
	}
	return now, nil
}

// lookAtMirror puts the site's rules into the place of the folder's when these are not used any
// more.
func (f *abiFolders) lookAtMirror(now abi.Values, id string, record *abiRecord) error {
	if record.Mirror == "" {
		return nil
	}
	held, err := f.imported(id, record.Mirror)
	if err != nil {
		return err
	}
	for _, field := range []abi.Field{abi.RegistriesConf, abi.CABundle} {
		given, _ := record.Before[field].(string)
		if given == "" || held != nil && slices.ContainsFunc(held.Files,
			func(file mirror.ImportedFile) bool { return string(file.Data) == given }) {
			continue
		}
		rules := f.mirror.at(mirror.Level{Cluster: id}).Rules()
		content := rules.RegistriesConf()
		if field == abi.CABundle {
			content = rules.CABundle()
		}
		if mentions(given, "[[registry]]") || field == abi.CABundle {
			now[field] = string(content)
		}
	}
	return nil
}

// host is the one of a cluster's hosts that has the network cards of a folder's host, and what it
// calls itself; nil if it has not come yet.
func (f *abiFolders) host(env *models.InfraEnv, hosts []*models.Host,
	wanted abi.Host) (_ *models.Host, calls string, err error) {
	for _, host := range hosts {
		if env == nil || host.InfraEnvID != *env.ID {
			continue
		}
		found, err := f.engine.HostHardware(host.InfraEnvID.String(), host.ID.String())
		if err != nil {
			return nil, "", err
		}
		if has(found, wanted) {
			return host, found.Hostname, nil
		}
	}
	return nil, "", nil
}

func has(found *models.Inventory, wanted abi.Host) bool {
	return found != nil && slices.ContainsFunc(found.Interfaces, func(nic *models.Interface) bool {
		return slices.Contains(wanted.MACs, strings.ToLower(nic.MacAddress))
	})
}

// Export writes the folder of a cluster: the one that it was made from with what was changed since,
// or a new one.
func (f *abiFolders) Export(_ context.Context, id string) (*console.ABIExport, error) {
	record, err := f.record(id)
	if err != nil {
		return nil, err
	}
	now, err := f.look(id, record)
	if err != nil {
		return nil, api.Problem(err)
	}
	manifests, err := f.manifests(id)
	if err != nil {
		return nil, api.Problem(err)
	}
	name, _ := now[abi.Name].(string)
	result := &console.ABIExport{Name: name + "-abi"}
	if record.Files == nil {
		result.Files, err = f.compose(id, now, manifests)
		return result, err
	}
	site, err := abi.Read(record.Files)
	if err != nil {
		return nil, err
	}
	files, unsaid, err := site.Write(record.Before, now, manifests)
	if err != nil {
		return nil, err
	}
	result.Files = files
	for _, field := range abi.Changed(record.Before, now) {
		result.Changed = append(result.Changed, string(field))
	}
	for _, field := range unsaid {
		result.Unsaid = append(result.Unsaid, string(field))
	}
	return result, nil
}

// manifests are those that people added to a cluster.
func (f *abiFolders) manifests(id string) ([]abi.File, error) {
	listed, err := f.engine.Manifests(id, false)
	if err != nil {
		return nil, err
	}
	var files []abi.File
	for _, m := range listed {
		in, _, err := f.engine.OpenManifest(id, engine.Manifest{Folder: m.Folder, Name: m.FileName})
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(in)
		if err = errors.Join(err, in.Close()); err != nil {
			return nil, err
		}
		files = append(files, abi.File{Name: path.Base(m.FileName), Data: data})
	}
	return files, nil
}

// compose writes the folder of a cluster that was made otherwise.
func (f *abiFolders) compose(id string, now abi.Values, manifests []abi.File) ([]abi.File, error) {
	cluster, err := f.engine.Cluster(id)
	if err != nil {
		return nil, err
	}
	var hosts []abi.Host
	workers, arbiters := int64(0), int64(0)
	for _, host := range cluster.Hosts {
		found, err := f.engine.HostHardware(host.InfraEnvID.String(), host.ID.String())
		if err != nil {
			return nil, err
		}
		if found == nil {
			continue
		}
		role := host.Role
		if role == models.HostRoleAutoAssign {
			role = host.SuggestedRole
		}
		switch role {
		case models.HostRoleWorker:
			workers++
		case models.HostRoleArbiter:
			arbiters++
		case models.HostRoleAutoAssign:
			role = ""
		}
		described := abi.Host{Hostname: host.RequestedHostname, Role: string(role)}
		if described.Hostname == "" {
			described.Hostname = found.Hostname
		}
		for _, nic := range found.Interfaces {
			described.MACs, described.NICs = append(described.MACs, strings.ToLower(nic.MacAddress)),
				append(described.NICs, nic.Name)
		}
		if host.InstallationDiskID != "" {
			described.Hints = map[string]any{"deviceName": host.InstallationDiskID}
		}
		hosts = append(hosts, described)
	}
	now[abi.Workers] = workers
	if arbiters > 0 {
		now[abi.Arbiters] = arbiters
	}
	rules := f.mirror.at(mirror.Level{Cluster: id}).Rules()
	if !rules.Empty() {
		now[abi.RegistriesConf] = string(rules.RegistriesConf())
	}
	if bundle := rules.CABundle(); len(bundle) > 0 {
		now[abi.CABundle] = string(bundle)
	}
	return abi.Compose(now, hosts, manifests)
}
