package scenario

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/uuid"

	"landfall/appliance/config"
	"landfall/appliance/engine"
	"landfall/appliance/engine/audit"
	"landfall/appliance/engine/event"
	"landfall/appliance/journal"
	"landfall/appliance/mirror"
	"landfall/appliance/release"
	"landfall/store"
)

const (
	version    = "4.20.8"
	agentImage = "registry.site.test:5000/openshift/agent@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	pullSecret = `{"auths":{"registry.site.test:5000":{"auth":"dXNlcjpwYXNz"}}}`
)

// appliance is the engine of a site and its store, with the other parts that exist while the
// appliance is on.
type appliance struct {
	site     *site
	up       bool
	db       *store.DB
	engine   *engine.Engine
	stepper  engine.Stepper
	auditor  *audit.Auditor
	random   *rand.ChaCha8
	releases *releases
	limits   config.Limits

	revision  uint64    // revision at which the next deadline was read
	due       time.Time // next deadline on the appliance's clock
	waits     bool
	dueValid  bool              // due and waits are valid
	preparing map[string]string // running preparations: cluster -> ID of the preparation
	compacted uint64            // revision at the last compaction
}

func newAppliance(s *site, limits config.Limits) (*appliance, error) {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], s.seed)
	binary.LittleEndian.PutUint64(seed[8:], uint64(s.number))
	a := &appliance{site: s, random: rand.NewChaCha8(seed), preparing: make(map[string]string),
		auditor: audit.New(), limits: limits}
	var err error
	if a.releases, err = newReleases(a.random, s.began); err != nil {
		return nil, err
	}
	return a, a.switchOn()
}

// switchOn starts a process of the appliance with the data of an earlier process.
func (a *appliance) switchOn() (err error) {
	s := a.site
	options := store.Options{Clock: s.clock, NoSync: true,
		History: journal.History(int64(a.limits.JournalObjectBytes), int64(a.limits.JournalBytes))}
	if a.db, err = store.Open(s.ctx, s.dir, options); err != nil {
		return err
	}
	a.engine, err = engine.New(engine.Options{
		DB: a.db, Releases: a.releases, Mirror: &mirror.Rules{}, Clock: s.clock, URL: "http://appliance.site.test:8090",
		Random:      a.random,
		Observer:    func(e *engine.Engine, c engine.Committed) { a.auditor.Check(a.audited(e), audit.Change(c)) },
		Images:      engine.Images{Agent: agentImage},
		EventLimits: event.Limits{Each: int64(a.limits.EventObjectBytes), All: int64(a.limits.EventBytes)},
		ReleaseList: []engine.ReleaseImage{{OpenshiftVersion: version, CPUArchitecture: "x86_64",
			URL: "registry.site.test:5000/openshift/release:" + version, Default: true}},
	})
	if err != nil {
		return errors.Join(err, a.db.Close())
	}
	a.stepper, a.up, a.dueValid = a.engine.Stepper(), true, false
	clear(a.preparing)
	return nil
}

// audited returns the parts of an engine that the auditor reads.
func (a *appliance) audited(e *engine.Engine) audit.Site {
	return audit.Site{Engine: e, DB: a.db, Now: a.site.clock.Now}
}

func (a *appliance) close() error {
	if a.db == nil {
		return nil
	}
	a.up = false
	db := a.db
	a.db = nil
	return db.Close()
}

// nextDue returns the time of the engine's next deadline, in real time.
func (a *appliance) nextDue() (time.Time, bool) {
	if !a.up {
		return time.Time{}, false
	}
	if revision := a.db.Revision(); !a.dueValid || revision != a.revision {
		a.handleDue()
	}
	return a.due.Add(-a.site.clock.wrong), a.waits
}

// handleDue handles the engine's due deadlines.
func (a *appliance) handleDue() {
	var err error
	a.due, a.waits, err = a.stepper.Due(a.site.ctx)
	a.site.fail(err)
	a.revision, a.dueValid = a.db.Revision(), true
	a.startPreparations()
}

// startPreparations runs openshift-install for the clusters that wait for it. A run that is no
// longer needed ends by itself.
func (a *appliance) startPreparations() {
	wanted, err := a.stepper.Preparations()
	a.site.fail(err)
	for _, cluster := range slices.Sorted(maps.Keys(wanted)) {
		id := wanted[cluster]
		if a.preparing[cluster] == id {
			continue
		}
		a.preparing[cluster] = id
		process := a.engine
		a.site.after(a.site.roughly(2*time.Minute), func() {
			if !a.up || a.engine != process || a.preparing[cluster] != id {
				return // the process that ran the preparation has ended
			}
			a.releases.fault = a.site.faultOf(cluster)
			a.stepper.Prepare(a.site.ctx, cluster, id)
			a.releases.fault = ""
		})
	}
}

// outage stops the appliance for some time: the machine sleeps, or the process ends and is started
// again.
func (s *site) outage(kind string, length time.Duration, sleeps bool) {
	if !s.up {
		return
	}
	s.stats.count(kind)
	process := s.engine
	s.up = false
	if !sleeps {
		s.fail(s.close())
	}
	s.after(max(length, time.Second), func() {
		if sleeps && s.engine == process {
			s.up, s.dueValid = true, false
			s.stepper.Jumped(length)
			return
		}
		s.fail(s.switchOn())
	})
}

// jump changes the appliance's clock.
func (s *site) jump(by time.Duration) {
	s.stats.count("clock jumps")
	s.clock.wrong += by
	s.dueValid = false
	if s.up {
		s.stepper.Jumped(by)
	}
}

// tidy removes old events and the change log before the previous call, as the appliance does
// regularly.
func (a *appliance) tidy() error {
	revision := a.db.Revision()
	if revision == a.compacted {
		return nil
	}
	a.handleDue()
	if err := a.engine.TrimEvents(a.site.ctx); err != nil {
		return err
	}
	if err := a.checkEvents(); err != nil {
		return err
	}
	err := a.db.Compact(a.site.ctx, a.compacted)
	a.compacted = revision
	return err
}

// sweep runs a complete check by the auditor.
func (a *appliance) sweep() error {
	if found := a.auditor.Sweep(a.audited(a.engine)); found != nil {
		return found
	}
	return nil
}

// checkEvents compares the size of the events with their limits.
func (a *appliance) checkEvents() error {
	each, all := make(map[string]int64), int64(0)
	if err := a.db.View(func(tx *store.Tx) error {
		return event.Rows.Sizes(tx, "", func(key string, bytes int) error {
			_, subjects, err := event.ParseKey(key)
			if err != nil {
				return err
			}
			each[subjects[len(subjects)-1]] += int64(bytes)
			all += int64(bytes)
			return nil
		})
	}); err != nil {
		return err
	}
	// The event about removed events is written after the removal.
	const notice = 1 << 10
	found := func(objects []string, bytes int64, limit config.Bytes) error {
		return &audit.Violation{Invariant: "events stay within their limit", Objects: objects,
			Found: fmt.Sprintf("they have %d bytes, and the limit is %d", bytes, limit)}
	}
	if limit := a.limits.EventBytes; all > int64(limit)+notice {
		return found(nil, all, limit)
	}
	for object, bytes := range each {
		if limit := a.limits.EventObjectBytes; bytes > int64(limit)+notice {
			return found([]string{object}, bytes, limit)
		}
	}
	return nil
}

// check tidies the appliance and runs a complete check, if the appliance is on.
func (a *appliance) check() error {
	if !a.up {
		return nil
	}
	return errors.Join(a.tidy(), a.sweep())
}

// size returns the size of the database in bytes.
func (a *appliance) size() int64 {
	info, err := os.Stat(filepath.Join(a.site.dir, "landfall.db"))
	if err != nil {
		return 0
	}
	return info.Size()
}

// releases contains one release. Its installer writes the smallest files that the engine accepts.
type releases struct {
	random    *rand.ChaCha8
	authority string // CA certificate of all clusters in PEM
	fault     string // fault of the current preparation
}

func newReleases(random *rand.ChaCha8, now time.Time) (*releases, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := random.Read(seed); err != nil {
		return nil, err
	}
	private := ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "simulated cluster"}, NotBefore: now,
		NotAfter: now.AddDate(100, 0, 0), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(nil, template, template, private.Public(), private)
	return &releases{random: random, authority: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: der}))}, err
}

// Payload describes the release.
func (r *releases) Payload(_ context.Context, pullSpec, arch string, _ authn.Keychain) (*release.Payload, error) {
	if r.fault == MirrorDown {
		return nil, errors.New("the mirror registry.site.test:5000 does not respond")
	}
	images := make(map[string]string)
	for _, tag := range []string{release.TagInstaller, release.TagAgent, release.TagHostInstaller,
		release.TagController, release.TagMachineConfigOperator, release.TagMustGather} {
		images[tag] = "registry.site.test:5000/openshift/" + tag + "@sha256:" + strings.Repeat("a", 64)
	}
	return &release.Payload{PullSpec: pullSpec, Image: "registry.site.test:5000/openshift/release@sha256:" +
		strings.Repeat("b", 64), Version: version, Architecture: arch, Images: images}, nil
}

// Installer returns no file, because no program is run.
func (r *releases) Installer(_ context.Context, _ *release.Payload, _ authn.Keychain,
	progress func(done, total int64)) (*release.Installer, func(), error) {
	progress(50, 100)
	progress(100, 100)
	return &release.Installer{Path: "openshift-install"}, func() {}, nil
}

// Generate returns the output of an installer.
func (r *releases) Generate(_ context.Context, _ *release.Installer,
	_ release.GenerateRequest) (*release.Generated, error) {
	if r.fault == InstallerFails {
		return nil, errors.New("openshift-install ended with exit code 1: failed to generate asset")
	}
	id, err := uuid.NewRandomFromReader(r.random)
	if err != nil {
		return nil, fmt.Errorf("generate the cluster's id: %w", err)
	}
	ignition := []byte(`{"ignition":{"version":"3.2.0"}}`)
	return &release.Generated{
		ClusterID: id.String(), InfraID: "simulated-" + id.String()[:5],
		Files: map[string][]byte{
			release.BootstrapIgnition: ignition, release.MasterIgnition: ignition, release.WorkerIgnition: ignition,
			release.KubeadminPassword: []byte("aaaaa-bbbbb-ccccc-ddddd"), release.Metadata: []byte("{}"),
			release.InstallConfig: []byte("{}"),
			release.Kubeconfig: []byte("clusters:\n- name: simulated\n  cluster:\n    server: " +
				"https://api.simulated.site.test:6443\n    certificate-authority-data: " +
				base64.StdEncoding.EncodeToString([]byte(r.authority)) + "\nusers:\n- name: admin\n"),
		},
	}, nil
}
