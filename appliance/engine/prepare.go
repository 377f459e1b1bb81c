package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/operator"
	"landfall/appliance/mirror"
	"landfall/appliance/release"
	"landfall/ignition"
	"landfall/store"
)

// progressStep is by how many percent the extraction of the installer advances between two notes of
// it.
const progressStep = 10

// preparationRun is a preparation that is under way in this process.
type preparationRun struct {
	id     string // the preparation's
	cancel context.CancelFunc
}

// runPreparations keeps one run going for each preparation that the store says is wanted, those of
// an earlier process too, and ends the runs of those that are not wanted any more.
func (e *Engine) runPreparations(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	running := make(map[string]*preparationRun)
	ended := make(chan string)
	for {
		wanted, err := e.wantedPreparations()
		if err != nil {
			return fmt.Errorf("looking for clusters to prepare: %w", err)
		}
		for id, run := range running {
			if wanted[id] != run.id {
				run.cancel()
			}
		}
		for id, preparation := range wanted {
			if running[id] != nil {
				continue
			}
			runCtx, cancel := context.WithCancel(ctx)
			running[id] = &preparationRun{preparation, cancel}
			group.Go(func() {
				defer cancel()
				e.prepare(runCtx, id, preparation)
				select {
				case ended <- id:
				case <-ctx.Done():
				}
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case id := <-ended:
			delete(running, id)
		case <-e.work:
		}
	}
}

// wantedPreparations returns the ids of the preparations to run, by cluster.
func (e *Engine) wantedPreparations() (map[string]string, error) {
	wanted := make(map[string]string)
	err := e.DB.View(func(tx *store.Tx) error {
		return pendingWork.Keys(tx, "", func(id string) error {
			row, err := clusterRows.Get(tx, id)
			if errors.Is(err, store.ErrNotFound) {
				return nil
			}
			if err == nil && row.Preparation != nil && !row.Preparation.Done && row.Preparation.Failed == "" {
				wanted[id] = row.Preparation.ID
			}
			return err
		})
	})
	return wanted, err
}

// prepare runs one preparation and notes how it ended. A run that is cut off by the appliance's end
// notes nothing: the next process takes it up again.
func (e *Engine) prepare(ctx context.Context, id, preparation string) {
	err := e.prepareInstallation(ctx, id, preparation)
	if err == nil || ctx.Err() != nil {
		return
	}
	noted := e.updatePreparation(ctx, id, preparation, func(c *change, row *clusterRecord) error {
		row.Preparation.Failed = clause(err)
		return errors.Join(
			pendingWork.Remove(c.tx, id),
			c.clusterEventOf(row, props{"error": clause(err)}, eventPreparationFailed, models.EventSeverityError,
				"Cluster %s: the installation could not be prepared: %s", row.API.Name, clause(err)),
		)
	})
	if noted != nil {
		e.Logger.Error("A failed preparation could not be noted.", "cluster", id, "failure", err, "error", noted)
	}
}

// errSuperseded ends a run whose cluster was cancelled, reset or deleted meanwhile.
var errSuperseded = errors.New("the preparation is not wanted any more")

// updatePreparation changes a cluster as long as the preparation is still its own.
func (e *Engine) updatePreparation(ctx context.Context, id, preparation string,
	fn func(*change, *clusterRecord) error) error {
	return e.update(withOperation(ctx, doPreparation), func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		if row.Preparation == nil || row.Preparation.ID != preparation || *row.API.Status != clusterPreparing {
			return errSuperseded
		}
		if err := fn(c, row); err != nil {
			return err
		}
		c.saveCluster(row)
		c.settleCluster(id)
		return nil
	})
}

// prepareInstallation resolves the release, runs its installer and keeps what it generates.
func (e *Engine) prepareInstallation(ctx context.Context, id, preparation string) error {
	row, err := e.clusterRow(id)
	if err != nil {
		return err
	}
	note := func(format string, args ...any) error {
		return e.updatePreparation(ctx, id, preparation, func(_ *change, row *clusterRecord) error {
			text := fmt.Sprintf(format, args...)
			row.API.StatusInfo = &text
			return nil
		})
	}
	if err := note("Preparing the installation: reading release payload %s.", row.API.OcpReleaseImage); err != nil {
		return err
	}
	releases := e.clusterAccess(&row.API).Releases
	payload, err := e.payload(ctx, releases, row.API.OcpReleaseImage, row.API.CPUArchitecture, row.PullSecret)
	if err != nil {
		return err
	}
	images, err := e.releaseImages(payload)
	if err != nil {
		return err
	}
	if err := e.updatePreparation(ctx, id, preparation, func(_ *change, row *clusterRecord) error {
		row.Release = images
		return nil
	}); err != nil {
		return err
	}
	text, err := e.openSecret(row.PullSecret)
	if err != nil {
		return err
	}
	secret, err := mirror.ParsePullSecret(text)
	if err != nil {
		return err
	}
	last := int64(-1)
	installer, done, err := releases.Installer(ctx, payload, secret, func(got, total int64) {
		if total <= 0 || got*100/total/progressStep == last {
			return
		}
		last = got * 100 / total / progressStep
		if err := note("Preparing the installation: extracting openshift-install, %d%%.", got*100/total); err != nil {
			e.Logger.Debug("The extraction's progress could not be noted.", "cluster", id, "error", err)
		}
	})
	if err != nil {
		return err
	}
	defer done()
	if err := e.proveMirror(ctx, id, note); err != nil {
		return err
	}
	if err := note(
		"Preparing the installation: openshift-install is generating manifests and ignition configs."); err != nil {
		return err
	}
	plan, err := e.planInstallation(id)
	if err != nil {
		return err
	}
	request, err := plan.request(images)
	if err != nil {
		return err
	}
	generated, err := releases.Generate(ctx, installer, request)
	if err != nil {
		return err
	}
	files, err := plan.files(generated, e.ServiceCA)
	if err != nil {
		return err
	}
	return e.keepGenerated(ctx, id, preparation, generated, files)
}

// releaseImages names the images of a payload that hosts are told of.
func (e *Engine) releaseImages(payload *release.Payload) (*releaseRecord, error) {
	record := &releaseRecord{Image: payload.Image, Agent: e.Images.Agent, Installer: e.Images.Installer,
		Controller: e.Images.Controller}
	for _, component := range []struct {
		into *string
		tag  string
	}{
		{&record.Agent, release.TagAgent}, {&record.Installer, release.TagHostInstaller},
		{&record.Controller, release.TagController},
		{&record.MCO, release.TagMachineConfigOperator}, {&record.MustGather, release.TagMustGather},
	} {
		if *component.into != "" {
			continue
		}
		image, err := payload.Component(component.tag)
		if err != nil {
			return nil, err
		}
		*component.into = image
	}
	return record, nil
}

// keepGenerated stores the installer's files and marks the preparation as done, in one transaction.
func (e *Engine) keepGenerated(ctx context.Context, id, preparation string, generated *release.Generated,
	files map[string][]byte) error {
	staged := make(map[string]*store.Staged, len(files))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content, err := e.Secrets.SealBytes(files[name])
		if err != nil {
			return fmt.Errorf("keeping %s: %w", name, err)
		}
		file, err := e.DB.Stage(ctx, bytes.NewReader(content))
		if err != nil {
			return fmt.Errorf("keeping %s: %w", name, err)
		}
		staged[name] = file
	}
	return e.updatePreparation(ctx, id, preparation, func(c *change, row *clusterRecord) error {
		if err := c.removeGenerated(id); err != nil {
			return err
		}
		for name, file := range staged {
			if err := installerFiles.Put(c.tx, id+"/"+name, file, c.now); err != nil {
				return err
			}
		}
		row.Preparation.Done = true
		row.InfraID = generated.InfraID
		row.API.OpenshiftClusterID = strfmt.UUID(generated.ClusterID)
		text := "Preparing the installation: waiting for the hosts to measure their disks and pull images."
		row.API.StatusInfo = &text
		return errors.Join(
			pendingWork.Remove(c.tx, id),
			c.clusterEvent(row, eventInstallConfig, models.EventSeverityInfo,
				"Cluster %s: manifests and ignition configs were generated.", row.API.Name),
		)
	})
}

// plan is all that the installer's run for a cluster depends on, read at once.
type plan struct {
	engine     *Engine
	mirror     Mirror // the cluster's rules
	row        *clusterRecord
	pullSecret string
	hosts      []*inventory.Host
	records    []*hostRecord // at the index of their hosts
	bundles    []string      // of the cluster's infra-envs, and of their mirror rules
	manifests  map[string][]byte
}

func (e *Engine) planInstallation(id string) (*plan, error) {
	p := &plan{engine: e, manifests: make(map[string][]byte)}
	var names []string
	err := e.DB.View(func(tx *store.Tx) error {
		var err error
		if p.row, err = clusterRows.Get(tx, id); err != nil {
			return err
		}
		keys, err := clusterHostKeys(tx, id)
		if err != nil {
			return err
		}
		envs := make(map[string]bool)
		for _, key := range keys {
			h, err := hostRows.Get(tx, key)
			if err != nil {
				return err
			}
			reports, err := loadReports(tx, key)
			if err != nil {
				return err
			}
			facts, err := inventory.Parse(reports)
			if err != nil {
				return err
			}
			p.hosts, p.records = append(p.hosts, inventory.NewHost(&h.API, facts)), append(p.records, h)
			envs[h.API.InfraEnvID.String()] = true
		}
		for _, envID := range slices.Sorted(maps.Keys(envs)) {
			env, err := infraEnvRows.Get(tx, envID)
			if err != nil {
				return err
			}
			p.bundles = append(p.bundles, env.API.AdditionalTrustBundle,
				string(e.infraEnvAccess(&env.API).Mirror.CABundle()))
		}
		return installerFiles.Keys(tx, id+"/"+manifestFolder, func(key string) error {
			names = append(names, strings.TrimPrefix(key, id+"/"))
			return nil
		})
	})
	if err == nil {
		p.pullSecret, err = e.openSecret(p.row.PullSecret)
	}
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		content, err := e.readFile(id, name)
		if err != nil {
			return nil, err
		}
		p.manifests[strings.TrimPrefix(name, manifestFolder)] = content
	}
	p.mirror, err = e.clusterAccess(&p.row.API).Mirror.FollowPolicies(slices.Collect(maps.Values(p.manifests))...)
	return p, err
}

func (p *plan) singleNode() bool { return p.row.API.ControlPlaneCount == 1 }

func (p *plan) request(images *releaseRecord) (release.GenerateRequest, error) {
	manifests, err := p.systemManifests()
	if err != nil {
		return release.GenerateRequest{}, err
	}
	maps.Copy(manifests, p.manifests) // what people wrote goes over the appliance's own of the same name
	config, err := p.overriddenInstallConfig()
	return release.GenerateRequest{
		ReleaseImage: images.Image, InstallConfig: config, Manifests: manifests, SingleNode: p.singleNode(),
		BootstrapIP: p.bootstrapAddress(), Invoker: "landfall", WithoutMachines: p.withoutMachines(),
	}, err
}

// files returns what is kept of an installer's run: its files, with the ignition configs edited and
// one more for each host.
func (p *plan) files(generated *release.Generated, serviceCA []byte) (map[string][]byte, error) {
	files := maps.Clone(generated.Files)
	operators, err := p.operatorManifests()
	if err != nil {
		return nil, err
	}
	if operators.Controller != nil {
		files[operator.ControllerFile] = operators.Controller
	}
	if bootstrap, ok := files[fileBootstrap]; ok {
		edited, err := ignition.EditBootstrap(bootstrap, ignition.BootstrapEdits{SingleNode: p.singleNode(),
			Hosts: p.bareMetalHosts()})
		if err != nil {
			return nil, fmt.Errorf("editing the generated bootstrap ignition: %w", err)
		}
		files[fileBootstrap] = edited
	}
	for _, role := range []string{release.MasterIgnition, release.WorkerIgnition, release.ArbiterIgnition} {
		config, ok := files[role]
		if !ok {
			continue
		}
		edits := ignition.RoleEdits{ServiceCA: serviceCA, IPv6: p.hasIPv6()}
		if role == release.MasterIgnition {
			edits.Files = p.leaseFiles()
		}
		edited, err := ignition.EditRole(config, edits)
		if err != nil {
			return nil, fmt.Errorf("editing the generated %s: %w", role, err)
		}
		files[role] = edited
	}
	addresses := p.nodeAddresses()
	for _, host := range p.hosts {
		role := string(host.Role())
		config, ok := files[role+".ign"]
		if !ok {
			return nil, fmt.Errorf("openshift-install generated no %s.ign, which host %s needs", role, host.Name())
		}
		edits := ignition.HostEdits{Hostname: host.Hostname(), Overrides: host.Record.IgnitionConfigOverrides,
			MachineConfigPool: host.Record.MachineConfigPoolName}
		if address, ok := addresses[host.ID()]; ok {
			edits.NodeIPHint = address.Masked().Addr().String()
		}
		own, err := ignition.HostConfig(config, edits)
		if err != nil {
			return nil, fmt.Errorf("making the ignition config of host %s: %w", host.Name(), err)
		}
		files[hostIgnition(host)] = own
	}
	return files, nil
}

// hostIgnition is the name of a host's own ignition config among the files of its cluster.
func hostIgnition(host *inventory.Host) string {
	return string(host.Role()) + "-" + host.ID().String() + ".ign"
}

// systemManifests are the manifests that every installation gets from the appliance.
func (p *plan) systemManifests() (map[string][]byte, error) {
	manifests := make(map[string][]byte)
	for name, content := range p.timeManifests() {
		manifests[filepath.Join("openshift", name)] = content
	}
	platform, err := p.platformManifests()
	if err != nil {
		return nil, err
	}
	maps.Copy(manifests, platform)
	operators, err := p.operatorManifests()
	if err != nil {
		return nil, err
	}
	for name, content := range operators.Install {
		manifests[filepath.Join("openshift", name)] = content
	}
	mirrored, err := p.mirrorManifests(operators.Install)
	if err != nil {
		return nil, err
	}
	maps.Copy(manifests, mirrored)
	return manifests, nil
}
