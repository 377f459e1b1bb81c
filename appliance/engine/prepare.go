package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"
	"go.opentelemetry.io/otel/attribute"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/installconfig"
	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/journal"
	"landfall/appliance/mirror"
	"landfall/appliance/release"
	"landfall/appliance/sentence"
	"landfall/appliance/tracing"
	"landfall/store"
)

// progressStep is the interval between two progress updates of the extraction, in percent.
const progressStep = 10

// The pauses before a preparation runs again whose result could not be recorded.
const (
	preparationRetry    = time.Second
	maxPreparationRetry = time.Minute
)

// preparationRun is a running preparation in this process.
type preparationRun struct {
	id     string // id of the preparation
	cancel context.CancelFunc
}

// runPreparations runs every unfinished preparation in the store until the context ends, including
// those that an earlier process began. It cancels the run of a preparation that the store no longer
// contains.
func (e *Engine) runPreparations(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	running := make(map[string]*preparationRun)
	ended := make(chan string)
	for {
		unfinished, err := e.unfinishedPreparations()
		if err != nil {
			e.options.Logger.Error("The clusters to prepare could not be read; the engine tries again.", "error", err)
			if !e.pause(ctx, preparationRetry) {
				return
			}
			continue
		}
		for id, run := range running {
			if unfinished[id] != run.id {
				run.cancel()
			}
		}
		for id, preparation := range unfinished {
			if running[id] != nil {
				continue
			}
			runCtx, cancel := context.WithCancel(ctx)
			running[id] = &preparationRun{preparation, cancel}
			group.Go(func() {
				defer cancel()
				within, span := tracing.Start(runCtx, "prepare installation", attribute.String("landfall.cluster", id))
				e.prepareUntilRecorded(within, id, preparation)
				span.End()
				select {
				case ended <- id:
				case <-ctx.Done():
				}
			})
		}
		select {
		case <-ctx.Done():
			return
		case id := <-ended:
			delete(running, id)
		case <-e.preparationsChanged:
		}
	}
}

// pause waits for a time. It returns false when the context ends.
func (e *Engine) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-e.options.Clock.After(d):
		return true
	}
}

// unfinishedPreparations returns the ids of the preparations to run, by cluster id. It leaves out
// damaged clusters.
func (e *Engine) unfinishedPreparations() (map[string]string, error) {
	unfinished := make(map[string]string)
	err := e.options.DB.View(func(tx *store.Tx) error {
		return record.PendingPreparations.Keys(tx, "", func(id string) error {
			row, err := record.Clusters.Get(tx, id)
			if errors.Is(err, store.ErrNotFound) {
				return nil
			}
			if store.IsDamaged(err) {
				return nil
			}
			if err == nil && row.Preparation != nil && !row.Preparation.Done && row.Preparation.Failed == "" {
				unfinished[id] = row.Preparation.ID
			}
			return err
		})
	})
	return unfinished, err
}

// prepareUntilRecorded runs a preparation again, with growing pauses, until its result is recorded.
func (e *Engine) prepareUntilRecorded(ctx context.Context, id, preparation string) {
	for wait := preparationRetry; !e.prepare(ctx, id, preparation) && e.pause(ctx, wait); {
		wait = min(2*wait, maxPreparationRetry)
	}
}

// prepare runs a preparation and records its failure. If the appliance stops during the run, it
// records nothing, and the next process runs the preparation again. It returns false if the result
// could not be recorded.
func (e *Engine) prepare(ctx context.Context, id, preparation string) (recorded bool) {
	err := e.prepareInstallation(ctx, id, preparation)
	if err == nil || ctx.Err() != nil {
		return true
	}
	recordErr := e.updatePreparation(ctx, id, preparation, func(c *change, row *record.Cluster) error {
		row.Preparation.Failed = sentence.Ending(err)
		return errors.Join(
			record.PendingPreparations.Remove(c.tx, id),
			c.clusterEventOf(row, event.Props{"error": sentence.Ending(err)}, event.PreparationFailed,
				models.EventSeverityError,
				"Cluster %s: the installation could not be prepared: %s", row.API.Name, sentence.Ending(err)),
		)
	})
	if recordErr != nil && !errors.Is(recordErr, errSuperseded) && fault.KindOf(recordErr) != fault.NotFound {
		e.options.Logger.Error("The failure of a preparation could not be recorded.", "cluster", id, "failure",
			err, "error", recordErr)
		return false
	}
	return true
}

// errSuperseded ends a run after its cluster was cancelled, reset or deleted.
var errSuperseded = errors.New("the preparation was cancelled")

// updatePreparation changes a cluster. It fails if the cluster has another preparation now.
func (e *Engine) updatePreparation(ctx context.Context, id, preparation string,
	fn func(*change, *record.Cluster) error) error {
	return e.update(journal.WithOperation(ctx, journal.OperationPreparation), func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		if row.Preparation == nil || row.Preparation.ID != preparation ||
			*row.API.Status != lifecycle.ClusterPreparing {
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

// prepareInstallation resolves the release, runs its installer and stores the generated files.
func (e *Engine) prepareInstallation(ctx context.Context, id, preparation string) error {
	row, err := record.ReadCluster(e.options.DB, id)
	if err != nil {
		return err
	}
	setStatusInfo := func(format string, args ...any) error {
		return e.updatePreparation(ctx, id, preparation, func(_ *change, row *record.Cluster) error {
			text := fmt.Sprintf(format, args...)
			row.API.StatusInfo = &text
			return nil
		})
	}
	if err := setStatusInfo("Preparing the installation: reading release payload %s.",
		row.API.OcpReleaseImage); err != nil {
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
	if err := e.updatePreparation(ctx, id, preparation, func(_ *change, row *record.Cluster) error {
		row.Release = images
		return nil
	}); err != nil {
		return err
	}
	text, err := record.OpenSecret(e.options.Secrets, row.PullSecret)
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
		if err := setStatusInfo("Preparing the installation: extracting openshift-install, %d%%.",
			got*100/total); err != nil {
			e.options.Logger.Debug("The progress of the extraction could not be recorded.", "cluster", id, "error", err)
		}
	})
	if err != nil {
		return err
	}
	defer done()
	if err := e.proveMirror(ctx, id, setStatusInfo); err != nil {
		return err
	}
	if err := setStatusInfo(
		"Preparing the installation: openshift-install is generating manifests and ignition configs."); err != nil {
		return err
	}
	installation, err := e.installation(id)
	if err != nil {
		return err
	}
	request, err := installation.Request(images.Image)
	if err != nil {
		return err
	}
	generated, err := releases.Generate(ctx, installer, request)
	if err != nil {
		return err
	}
	files, err := installation.Files(generated)
	if err != nil {
		return err
	}
	return e.storeGenerated(ctx, id, preparation, generated, files)
}

// releaseImages returns the images of a payload that run on hosts. Configured images replace the
// images in the payload.
func (e *Engine) releaseImages(payload *release.Payload) (*record.Release, error) {
	record := &record.Release{Image: payload.Image, Agent: e.options.Images.Agent,
		Installer:  e.options.Images.Installer,
		Controller: e.options.Images.Controller, CoreOS: payload.Images[release.TagCoreOS]}
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

// storeGenerated stores the generated files and marks the preparation as done, in one transaction.
func (e *Engine) storeGenerated(ctx context.Context, id, preparation string, generated *release.Generated,
	files map[string][]byte) error {
	staged := make(map[string]*store.Staged, len(files))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content, err := e.options.Secrets.SealBytes(files[name])
		if err != nil {
			return fmt.Errorf("store %s: %w", name, err)
		}
		file, err := e.options.DB.Stage(ctx, bytes.NewReader(content))
		if err != nil {
			return fmt.Errorf("store %s: %w", name, err)
		}
		staged[name] = file
	}
	return e.updatePreparation(ctx, id, preparation, func(c *change, row *record.Cluster) error {
		if err := record.DeleteGenerated(c.tx, id); err != nil {
			return err
		}
		for name, file := range staged {
			if err := record.InstallerFiles.Put(c.tx, id+"/"+name, file, c.now); err != nil {
				return err
			}
		}
		row.Preparation.Done = true
		row.InfraID = generated.InfraID
		row.API.OpenshiftClusterID = strfmt.UUID(generated.ClusterID)
		text := "Preparing the installation: waiting for the hosts to measure their disks and pull images."
		row.API.StatusInfo = &text
		return errors.Join(
			record.PendingPreparations.Remove(c.tx, id),
			c.clusterEvent(row, event.InstallerFiles, models.EventSeverityInfo,
				"Cluster %s: manifests and ignition configs were generated.", row.API.Name),
		)
	})
}

// installation returns the input from which the files of a cluster are generated.
func (e *Engine) installation(id string) (*installconfig.Installation, error) {
	in := &installconfig.Installation{
		Fencing: make(map[strfmt.UUID]*models.FencingCredentialsParams), Manifests: make(map[string][]byte),
		ServiceURL: e.options.URL, ServiceCA: e.options.ServiceCA,
	}
	var row *record.Cluster
	var names []string
	err := e.options.DB.View(func(tx *store.Tx) error {
		var err error
		if row, err = record.Clusters.Get(tx, id); err != nil {
			return err
		}
		if err := e.addHosts(tx, id, in); err != nil {
			return err
		}
		return record.InstallerFiles.Keys(tx, id+"/"+manifestFolder, func(key string) error {
			names = append(names, strings.TrimPrefix(key, id+"/"))
			return nil
		})
	})
	if err == nil {
		in.PullSecret, err = record.OpenSecret(e.options.Secrets, row.PullSecret)
	}
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		content, err := e.ReadFile(id, name)
		if err != nil {
			return nil, err
		}
		in.Manifests[strings.TrimPrefix(name, manifestFolder)] = content
	}
	in.Cluster, in.APILease, in.IngressLease = &row.API, row.APILease, row.IngressLease
	in.Requirements, in.ControllerImage = e.options.Requirements(row.API.OpenshiftVersion), e.options.Images.Controller
	if row.Release != nil {
		in.ControllerImage = row.Release.Controller
	}
	in.Catalogs = e.catalogs(row)
	in.Mirror, err = e.clusterAccess(&row.API).Mirror.FollowPolicies(slices.Collect(maps.Values(in.Manifests))...)
	return in, err
}

// addHosts adds the hosts of a cluster to its installation, with their fencing credentials and the
// CA certificates of their infra-envs.
func (e *Engine) addHosts(tx *store.Tx, id string, in *installconfig.Installation) error {
	keys, err := record.ClusterHostKeys(tx, id)
	if err != nil {
		return err
	}
	envs := make(map[string]bool)
	for _, key := range keys {
		h, err := record.Hosts.Get(tx, key)
		if err != nil {
			return err
		}
		facts, err := record.LoadFacts(tx, key)
		if err != nil {
			return err
		}
		host := inventory.NewHost(&h.API, facts)
		in.Hosts, in.Fencing[host.ID()] = append(in.Hosts, host), h.Fencing
		envs[h.API.InfraEnvID.String()] = true
	}
	for _, envID := range slices.Sorted(maps.Keys(envs)) {
		env, err := record.InfraEnvs.Get(tx, envID)
		if err != nil {
			return err
		}
		in.TrustBundles = append(in.TrustBundles, env.API.AdditionalTrustBundle,
			string(e.infraEnvAccess(&env.API).Mirror.CABundle()))
	}
	return nil
}

// MirrorLater returns the objects of a cluster's mirror rules that only a running cluster accepts,
// as YAML documents. It is empty if there are none.
func (e *Engine) MirrorLater(id string) ([]byte, error) {
	row, err := record.ReadCluster(e.options.DB, id)
	if err != nil {
		return nil, err
	}
	in := &installconfig.Installation{Cluster: &row.API, Mirror: e.clusterAccess(&row.API).Mirror}
	return in.LaterObjects(), nil
}
