package abi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/architecture"
	"landfall/appliance/engine"
	"landfall/appliance/mirror"
)

// Mirror gives access to the site's mirror rules.
type Mirror interface {
	// Import adds rules to a level. It replaces the rules of the same name.
	Import(ctx context.Context, level mirror.Level, name string, rules *mirror.Import) error
	// Remove removes imported rules.
	Remove(ctx context.Context, level mirror.Level, name string) error
	// Imported returns the rules that were imported for a level under a name, or nil.
	Imported(level mirror.Level, name string) (*mirror.Import, error)
	// Rules returns the rules of a level.
	Rules(level mirror.Level) *mirror.Rules
}

// Options contains the dependencies of a [Service].
type Options struct {
	Engine   *engine.Engine
	Settings *HostSettings
	Mirror   Mirror
	Logger   *slog.Logger
}

// Service creates clusters from directories and exports clusters as directories.
type Service struct {
	engine   *engine.Engine
	settings *HostSettings
	mirror   Mirror
	log      *slog.Logger
}

// New returns a service.
func New(options Options) *Service {
	return &Service{engine: options.Engine, settings: options.Settings, mirror: options.Mirror,
		log: options.Logger}
}

// SchemaError reports that the values of a directory violate the API's schema.
type SchemaError struct{ Err error }

// Error returns the text of the schema's error.
func (e *SchemaError) Error() string { return e.Err.Error() }

// Unwrap returns the schema's error.
func (e *SchemaError) Unwrap() error { return e.Err }

// Import is the result of an import.
type Import struct {
	ClusterID        string    `json:"cluster_id,omitempty"` // absent after a check
	InfraEnvID       string    `json:"infra_env_id,omitempty"`
	Name             string    `json:"name"`
	OpenshiftVersion string    `json:"openshift_version"`
	Hosts            int       `json:"hosts"` // in the directory
	Notes            []Problem `json:"notes"` // settings without effect, with the reasons
}

// Export is the directory of a cluster.
type Export struct {
	Name  string `json:"name"` // of the directory
	Files []File `json:"files"`
	// Changed names the values that differ from the directory from which the cluster was created.
	// Unwritten names the changed values that no document of that directory can contain.
	Changed   []string `json:"changed"`
	Unwritten []string `json:"unsaid"`
}

// Import creates a cluster and its infra-env from a directory. If check is set, it creates nothing
// and returns the expected result.
func (s *Service) Import(ctx context.Context, files []File, check bool) (*Import, error) {
	site, err := Read(files)
	if err != nil {
		return nil, err
	}
	params, err := s.describe(site)
	if err != nil {
		return nil, err
	}
	rules, err := mirrorRules(site)
	if err != nil {
		return nil, err
	}
	result := &Import{Name: conv.Value(params.Name), OpenshiftVersion: conv.Value(params.OpenshiftVersion),
		Hosts: len(site.Hosts), Notes: append([]Problem{}, site.Notes...)}
	if check {
		return result, nil
	}
	record := &record{Files: site.Files, Hosts: site.Hosts}
	cluster, err := s.create(ctx, site, params, rules, record)
	if err != nil {
		return nil, err
	}
	result.ClusterID, result.InfraEnvID = cluster.ID.String(), record.InfraEnvID
	s.log.Info("A cluster was created from an agent-based installer directory.", "cluster", result.ClusterID, "name",
		cluster.Name, "files", len(site.Files), "hosts", len(site.Hosts))
	return result, nil
}

// describe returns the description of the cluster in a directory, with its release.
func (s *Service) describe(site *Site) (*models.ClusterCreateParams, error) {
	params := site.Values.ClusterParams()
	release, err := s.release(site, params.CPUArchitecture)
	if err != nil {
		return nil, err
	}
	params.OpenshiftVersion, params.CPUArchitecture = &release.OpenshiftVersion,
		architecture.Of(release.CPUArchitecture).API()
	if err := params.Validate(strfmt.Default); err != nil {
		return nil, &SchemaError{err}
	}
	return params, nil
}

// release returns the configured release image that a directory names by pull spec, by digest, or
// by the version in a tag.
func (s *Service) release(site *Site, arch string) (engine.ReleaseImage, error) {
	named, _ := site.Values[ReleaseImage].(string)
	_, digest, byDigest := strings.Cut(named, "@")
	tag := named[strings.LastIndexAny(named, ":/")+1:]
	var chosen *engine.ReleaseImage
	releases := s.engine.ReleaseList()
	for i, release := range releases {
		if arch != "" && architecture.Of(release.CPUArchitecture).API() != arch {
			continue
		}
		switch {
		case named == release.URL, byDigest && strings.HasSuffix(release.URL, "@"+digest):
			return release, nil
		case named == "" && (chosen == nil || release.Default), !byDigest && (tag == release.OpenshiftVersion ||
			strings.HasPrefix(tag, release.OpenshiftVersion+"-")):
			chosen = &releases[i]
		}
	}
	if chosen == nil {
		return engine.ReleaseImage{}, site.Refuse(ReleaseImage,
			"is %q, which the site does not offer; add it to the releases in the settings", named)
	}
	if named == "" {
		site.Notes = append(site.Notes, Problem{File: "install-config.yaml", Text: "names no release; it will be " +
			chosen.OpenshiftVersion})
	} else {
		site.Notes = append(site.Notes, Problem{File: "cluster-manifests/cluster-image-set.yaml",
			Text: "names its release by a tag; the configuration's " + chosen.URL + " is installed"})
	}
	return *chosen, nil
}

// mirrorRules returns the mirror rules in a directory, or nil.
func mirrorRules(site *Site) (*mirror.Import, error) {
	var documents []mirror.Document
	if conf, _ := site.Values[RegistriesConf].(string); hasLine(conf, "[[registry]]") {
		documents = append(documents, mirror.Document{Name: string(RegistriesConf), Data: []byte(conf)})
	}
	if bundle, _ := site.Values[CABundle].(string); strings.TrimSpace(bundle) != "" {
		documents = append(documents, mirror.Document{Name: string(CABundle), Data: []byte(bundle)})
	}
	if sources := site.Values[DigestSources]; sources != nil {
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

// hasLine reports whether a line starts with a prefix. The registries.conf that the installer
// writes contains only comments.
func hasLine(text, prefix string) bool {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), prefix) {
			return true
		}
	}
	return false
}

// mirrorName returns the name of the imported mirror rules of a directory.
func mirrorName(site *Site) string { return fmt.Sprintf("abi-%v", site.Values[Name]) }

// create creates the objects that a directory describes. If a step fails, it undoes the previous
// steps.
func (s *Service) create(ctx context.Context, site *Site, params *models.ClusterCreateParams, rules *mirror.Import,
	record *record) (_ *models.Cluster, err error) {
	var undo []func(context.Context) error
	defer func() {
		if err != nil {
			for _, back := range slices.Backward(undo) {
				err = errors.Join(err, back(context.WithoutCancel(ctx)))
			}
		}
	}()
	cluster, err := s.engine.RegisterCluster(ctx, params)
	if err != nil {
		return nil, err
	}
	id := cluster.ID.String()
	undo = append(undo, func(ctx context.Context) error { return s.engine.DeregisterCluster(ctx, id, false) })
	if rules != nil { // rules come before the infra-env, because its image contains them
		level := mirror.Level{Cluster: id}
		record.Mirror = mirrorName(site)
		if err := s.mirror.Import(ctx, level, record.Mirror, rules); err != nil {
			return nil, err
		}
		undo = append(undo, func(ctx context.Context) error { return s.mirror.Remove(ctx, level, record.Mirror) })
	}
	envParams := site.Values.InfraEnvParams(*cluster.ID)
	envParams.CPUArchitecture = params.CPUArchitecture
	if err := envParams.Validate(strfmt.Default); err != nil {
		return nil, &SchemaError{err}
	}
	env, err := s.engine.RegisterInfraEnv(ctx, envParams)
	if err != nil {
		return nil, err
	}
	record.InfraEnvID = env.ID.String()
	override, err := site.Values.Override()
	if err != nil {
		return nil, err
	}
	if override != "" {
		if err := s.engine.SetInstallConfigOverride(ctx, id, override); err != nil {
			return nil, err
		}
	}
	for _, manifest := range site.Manifests {
		if _, err := s.engine.CreateManifest(ctx, id, engine.Manifest{Folder: models.ManifestFolderOpenshift,
			Name: manifest.Name, Content: manifest.Data}); err != nil {
			return nil, fmt.Errorf("openshift/%s: %w", manifest.Name, err)
		}
	}
	record.Before = maps.Clone(site.Values)
	if record.Before, err = s.presentValues(id, record); err != nil {
		return nil, err
	}
	return cluster, s.settings.saveDirectory(ctx, id, record)
}

// presentValues returns the current values of a cluster that a directory can set.
func (s *Service) presentValues(id string, record *record) (Values, error) {
	cluster, err := s.engine.Cluster(id)
	if err != nil {
		return nil, err
	}
	private, err := s.engine.PrivateFields(id)
	if err != nil {
		return nil, err
	}
	envs, err := s.engine.InfraEnvs(id)
	if err != nil {
		return nil, err
	}
	var env *models.InfraEnv
	for _, candidate := range envs {
		if env == nil || candidate.ID.String() == record.InfraEnvID {
			env = candidate
		}
	}
	now, err := ValuesOf(cluster, env)
	if err != nil {
		return nil, err
	}
	now[PullSecret] = strings.TrimSpace(private.PullSecret)
	if private.DerivedMachineNetwork {
		delete(now, MachineNetworks)
	}
	for field, value := range record.Before { // a cluster has no field for these values
		if OfDirectory(field) {
			now[field] = value
		}
	}
	if err := s.presentMirrorRules(now, id, record); err != nil {
		return nil, err
	}
	for _, host := range record.Hosts {
		found, reported, err := s.host(env, cluster.Hosts, host)
		if err != nil {
			return nil, err
		}
		if found == nil {
			continue
		}
		name := found.RequestedHostname
		if host.Hostname == "" && name == reported {
			name = "" // the user did not choose the name
		}
		now.SetHost(host, name, string(found.Role))
	}
	return now, nil
}

// presentMirrorRules returns the directory's mirror rules, or the site's rules if those of the
// directory were removed.
func (s *Service) presentMirrorRules(now Values, id string, record *record) error {
	if record.Mirror == "" {
		return nil
	}
	imported, err := s.mirror.Imported(mirror.Level{Cluster: id}, record.Mirror)
	if err != nil {
		return err
	}
	for _, field := range []Field{RegistriesConf, CABundle} {
		given, _ := record.Before[field].(string)
		if given == "" || imported != nil && slices.ContainsFunc(imported.Files,
			func(file mirror.ImportedFile) bool { return string(file.Data) == given }) {
			continue
		}
		rules := s.mirror.Rules(mirror.Level{Cluster: id})
		content := rules.RegistriesConf()
		if field == CABundle {
			content = rules.CABundle()
		}
		if hasLine(given, "[[registry]]") || field == CABundle {
			now[field] = string(content)
		}
	}
	return nil
}

// host returns the cluster's host that has the network interfaces of a directory's host, and the
// name that it reported. It returns nil if the host has not registered yet.
func (s *Service) host(env *models.InfraEnv, hosts []*models.Host,
	wanted Host) (_ *models.Host, reportedName string, err error) {
	for _, host := range hosts {
		if env == nil || host.InfraEnvID != *env.ID {
			continue
		}
		hardware, err := s.engine.HostHardware(host.InfraEnvID.String(), host.ID.String())
		if err != nil {
			return nil, "", err
		}
		if hasInterface(hardware, wanted) {
			return host, hardware.Hostname, nil
		}
	}
	return nil, "", nil
}

// Export returns the directory of a cluster: the directory from which the cluster was created, with
// later changes, or a new directory.
func (s *Service) Export(_ context.Context, id string) (*Export, error) {
	record, err := s.settings.record(id)
	if err != nil {
		return nil, err
	}
	now, err := s.presentValues(id, record)
	if err != nil {
		return nil, err
	}
	manifests, err := s.manifests(id)
	if err != nil {
		return nil, err
	}
	name, _ := now[Name].(string)
	result := &Export{Name: name + "-abi"}
	if record.Files == nil {
		result.Files, err = s.compose(id, now, manifests)
		return result, err
	}
	site, err := Read(record.Files)
	if err != nil {
		return nil, err
	}
	files, unwritten, err := site.Write(record.Before, now, manifests)
	if err != nil {
		return nil, err
	}
	result.Files = files
	for _, field := range Changed(record.Before, now) {
		result.Changed = append(result.Changed, string(field))
	}
	for _, field := range unwritten {
		result.Unwritten = append(result.Unwritten, string(field))
	}
	return result, nil
}

// manifests returns the manifests that users added to a cluster.
func (s *Service) manifests(id string) ([]File, error) {
	listed, err := s.engine.Manifests(id, false)
	if err != nil {
		return nil, err
	}
	var files []File
	for _, m := range listed {
		in, _, err := s.engine.OpenManifest(id, engine.Manifest{Folder: m.Folder, Name: m.FileName})
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(in)
		if err = errors.Join(err, in.Close()); err != nil {
			return nil, err
		}
		files = append(files, File{Name: path.Base(m.FileName), Data: data})
	}
	return files, nil
}

// compose returns a new directory for a cluster that was not created from one.
func (s *Service) compose(id string, now Values, manifests []File) ([]File, error) {
	cluster, err := s.engine.Cluster(id)
	if err != nil {
		return nil, err
	}
	var hosts []Host
	workers, arbiters := int64(0), int64(0)
	for _, host := range cluster.Hosts {
		hardware, err := s.engine.HostHardware(host.InfraEnvID.String(), host.ID.String())
		if err != nil {
			return nil, err
		}
		if hardware == nil {
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
		described := Host{Hostname: host.RequestedHostname, Role: string(role)}
		if described.Hostname == "" {
			described.Hostname = hardware.Hostname
		}
		for _, nic := range hardware.Interfaces {
			described.MACs, described.NICs = append(described.MACs, strings.ToLower(nic.MacAddress)),
				append(described.NICs, nic.Name)
		}
		if host.InstallationDiskID != "" {
			described.Hints = map[string]any{"deviceName": host.InstallationDiskID}
		}
		hosts = append(hosts, described)
	}
	now[Workers] = workers
	if arbiters > 0 {
		now[Arbiters] = arbiters
	}
	rules := s.mirror.Rules(mirror.Level{Cluster: id})
	if !rules.Empty() {
		now[RegistriesConf] = string(rules.RegistriesConf())
	}
	if bundle := rules.CABundle(); len(bundle) > 0 {
		now[CABundle] = string(bundle)
	}
	return Compose(now, hosts, manifests)
}
