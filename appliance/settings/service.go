package settings

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/access"
	"landfall/appliance/architecture"
	"landfall/appliance/doctor"
	"landfall/appliance/engine"
	"landfall/appliance/engine/description"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/mirror"
	"landfall/appliance/release"
	"landfall/appliance/release/trust"
	"landfall/appliance/sentence"
	"landfall/store"
)

// Sources of a release.
const (
	SourceConfiguration = "configuration" // in release_images
	SourceAdministrator = "administrator" // added while the appliance runs
	SourceMedium        = "medium"        // on a medium of the appliance's registry
)

// Settings are the settings of the site, without secrets.
type Settings struct {
	Releases     []Release  `json:"releases"`
	PullSecret   PullSecret `json:"pull_secret"`
	SSHPublicKey Text       `json:"ssh_public_key"`
	NTPSources   List       `json:"ntp_sources"`
	URL          URL        `json:"url"`
}

// Release is a release that the site offers.
type Release struct {
	OpenshiftVersion string `json:"openshift_version"`
	CPUArchitecture  string `json:"cpu_architecture"`
	URL              string `json:"url"` // pull spec
	Default          bool   `json:"default"`
	Source           string `json:"source"`
	State            State  `json:"state"`             // of its payload
	Message          string `json:"message,omitempty"` // why the payload can't be read
}

// PullSecret says for which registries the site's pull secret has credentials.
type PullSecret struct {
	Set        bool     `json:"set"`
	Fixed      bool     `json:"fixed"` // by mirror.pull_secret
	Registries []string `json:"registries"`
}

// Text is a setting that is a text.
type Text struct {
	Value string `json:"value"`
	Fixed bool   `json:"fixed"`
}

// List is a setting that is a list of texts.
type List struct {
	Value []string `json:"value"`
	Fixed bool     `json:"fixed"`
}

// URL is the URL by which hosts reach the appliance.
type URL struct {
	Value         string   `json:"value"`
	Fixed         bool     `json:"fixed"`
	Candidates    []string `json:"candidates"`     // URLs with the addresses of this machine
	RestartNeeded bool     `json:"restart_needed"` // the appliance uses another URL until it restarts
	// LocalListener is where the appliance listens if only this machine reaches it. Then no URL
	// helps hosts, and Advice says what does.
	LocalListener string `json:"local_listener,omitempty"`
	Advice        string `json:"advice,omitempty"`
}

// Change is a change of settings. Absent settings keep their values; an empty value removes one.
type Change struct {
	PullSecret   *string   `json:"pull_secret,omitempty"`
	SSHPublicKey *string   `json:"ssh_public_key,omitempty"`
	NTPSources   *[]string `json:"ntp_sources,omitempty"`
	URL          *string   `json:"url,omitempty"`
}

// NewRelease is a request to add a release.
type NewRelease struct {
	Release string `json:"release"` // pull spec with a digest or a tag
	Default bool   `json:"default,omitempty"`
}

// Trust allows releases. Package trust implements it.
type Trust interface {
	List() (*trust.List, error)
	Allow(ctx context.Context, release string) (*trust.Allowed, error)
	Forget(ctx context.Context, digest string) error
}

// ServiceOptions configures [NewService].
type ServiceOptions struct {
	Site   *Site
	Engine *engine.Engine
	Trust  Trust
	// Payload reads a release through the site's mirror, without a check whether it may be used.
	Payload func(ctx context.Context, pullSpec, arch string, secret authn.Keychain) (*release.Payload, error)
	// CheckImage returns an error if the appliance has no live ISO for a release.
	CheckImage func(openshiftVersion, architecture string) error
	Rules      func(mirror.Level) *mirror.Rules
	URL        string   // that the appliance uses
	Candidates []string // URLs with the addresses of this machine
	Listener   doctor.Listener
	Digest     trust.Resolve // asks the registry for the digest of an image
	CheckURL   func(text string) (string, error)
	Wake       func()                                          // is called after a change of the releases; may be nil
	Dial       func(ctx context.Context, address string) error // connects to an address and disconnects; nil for TCP
	Clock      clockwork.Clock
	Logger     *slog.Logger
}

// Service shows and changes the settings.
type Service struct {
	ServiceOptions
	checks *checks
}

// NewService returns a Service, which must be closed.
func NewService(options ServiceOptions) *Service {
	if options.Dial == nil {
		options.Dial = dial
	}
	return &Service{options, newChecks(options.Clock)}
}

// Close waits for the running checks.
func (s *Service) Close() { s.checks.close() }

// Show returns the settings.
func (s *Service) Show() (*Settings, error) {
	secret, err := s.Site.PullSecret()
	if err != nil {
		return nil, err
	}
	fixed, set := s.Site.options.Fixed, s.Site.values.Load()
	shown := &Settings{
		Releases:     []Release{},
		PullSecret:   PullSecret{Set: secret != "", Fixed: fixed.PullSecretFile != "", Registries: []string{}},
		SSHPublicKey: Text{Value: set.SSHPublicKey},
		NTPSources:   List{Value: orEmpty(s.Site.NTPSources()), Fixed: len(fixed.NTPSources) > 0},
		URL: URL{Value: s.URL, Fixed: len(fixed.URLs) > 0, Candidates: orEmpty(s.Candidates),
			RestartNeeded: s.restartNeeded()},
	}
	if s.Listener.IsLocal() {
		shown.URL.LocalListener, shown.URL.Advice = s.Listener.Address.String(), s.Listener.Advice()
	}
	if shown.URL.RestartNeeded {
		// Without a set URL, the next start takes the first one with an address of this machine.
		shown.URL.Value = cmp.Or(slices.Concat([]string{set.URL}, s.Candidates)...)
	}
	if parsed, err := mirror.ParsePullSecret(secret); err == nil {
		shown.PullSecret.Registries = orEmpty(parsed.Registries())
	}
	for i, image := range s.Site.Releases() {
		release := s.release(image, i < len(fixed.Releases))
		if i >= len(fixed.Releases) && set.find(image.OpenshiftVersion, image.CPUArchitecture) < 0 {
			release.Source = SourceMedium
		}
		shown.Releases = append(shown.Releases, release)
	}
	return shown, nil
}

// restartNeeded reports whether the URL that a person set is not in use yet, or still in use.
func (s *Service) restartNeeded() bool {
	if len(s.Site.options.Fixed.URLs) > 0 {
		return false
	}
	wanted := s.Site.URL()
	if wanted == "" {
		return len(s.Candidates) > 0 && !slices.Contains(s.Candidates, s.URL)
	}
	return wanted != s.URL
}

func (s *Service) release(image engine.ReleaseImage, fixed bool) Release {
	shown := Release{OpenshiftVersion: image.OpenshiftVersion, CPUArchitecture: image.CPUArchitecture,
		URL: image.URL, Default: image.Default, Source: SourceAdministrator}
	if fixed {
		shown.Source = SourceConfiguration
	}
	shown.State, shown.Message = s.payloadState(image)
	return shown
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// Change changes settings and returns all of them.
func (s *Service) Change(ctx context.Context, wanted Change) (*Settings, error) {
	changed, err := s.check(wanted)
	if err != nil {
		return nil, err
	}
	if err := s.Site.change(ctx, func(r *row) error { changed(r); return nil }); err != nil {
		return nil, err
	}
	if wanted.PullSecret != nil {
		s.checks.forget() // registries may answer differently
	}
	s.Logger.Info("Settings changed.", "settings", wanted.names(), "by", access.From(ctx).String())
	return s.Show()
}

// names returns the names of the settings in a change.
func (c Change) names() string {
	var given map[string]any
	if text, err := json.Marshal(c); err != nil || json.Unmarshal(text, &given) != nil {
		return ""
	}
	return strings.Join(slices.Sorted(maps.Keys(given)), ", ")
}

// check checks a change and returns a function that applies it.
func (s *Service) check(wanted Change) (func(*row), error) {
	fixed := s.Site.options.Fixed
	var apply []func(*row)
	if wanted.PullSecret != nil {
		if fixed.PullSecretFile != "" {
			return nil, isFixed("pull secret", "mirror.pull_secret")
		}
		secret := strings.TrimSpace(*wanted.PullSecret)
		if secret != "" {
			if _, err := mirror.ParsePullSecret(secret); err != nil {
				return nil, &fault.Error{Kind: fault.Invalid, Reason: sentence.New(err), Err: err}
			}
		}
		sealed, err := s.Site.options.Secrets.Seal(secret)
		if err != nil {
			return nil, fmt.Errorf("seal the pull secret: %w", err)
		}
		apply = append(apply, func(r *row) { r.PullSecret = sealed })
	}
	if wanted.SSHPublicKey != nil {
		keys := strings.TrimSpace(*wanted.SSHPublicKey)
		if err := description.CheckSSHKeys(keys); err != nil {
			return nil, err
		}
		apply = append(apply, func(r *row) { r.SSHPublicKey = keys })
	}
	if wanted.NTPSources != nil {
		if len(fixed.NTPSources) > 0 {
			return nil, isFixed("list of time servers", "ntp_sources")
		}
		var sources []string
		for _, source := range *wanted.NTPSources {
			if source = strings.TrimSpace(source); source != "" && !slices.Contains(sources, source) {
				sources = append(sources, source)
			}
		}
		if err := description.CheckTimeServers(strings.Join(sources, ",")); err != nil {
			return nil, err
		}
		apply = append(apply, func(r *row) { r.NTPSources = sources })
	}
	if wanted.URL != nil {
		if len(fixed.URLs) > 0 {
			return nil, isFixed("URL", "url")
		}
		address := strings.TrimSpace(*wanted.URL)
		if address != "" {
			checked, err := s.CheckURL(address)
			if err != nil {
				return nil, &fault.Error{Kind: fault.Invalid, Reason: sentence.New(err), Err: err}
			}
			address = checked
		}
		apply = append(apply, func(r *row) { r.URL = address })
	}
	return func(r *row) {
		for _, set := range apply {
			set(r)
		}
	}, nil
}

func isFixed(setting, key string) error {
	variable := "LANDFALL_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
	return fault.New(fault.Conflict, "The configuration sets the %s: key %s in its file, or the environment variable "+
		"%s. Remove it there and restart the appliance to set it here.", setting, key, variable)
}

// AddRelease adds a release. Version and architecture come from its payload, which is read through
// the mirror. Clusters can use the release at once.
func (s *Service) AddRelease(ctx context.Context, wanted NewRelease) (*Release, error) {
	payload, err := s.read(ctx, strings.TrimSpace(wanted.Release))
	if err != nil {
		return nil, err
	}
	added := addedRelease{Version: payload.Version, Architecture: architecture.Of(payload.Architecture).API(),
		PullSpec: payload.PullSpec, Digest: payload.Digest, Default: wanted.Default,
		By: access.From(ctx).String(), At: s.Clock.Now().UTC()}
	if payload.Multi {
		added.Architecture = description.MultiCPU
	}
	if err := s.checkNew(&added); err != nil {
		return nil, err
	}
	allowed, err := s.allowed(added.Digest)
	if err != nil {
		return nil, err
	}
	if !allowed {
		if _, err := s.Trust.Allow(ctx, added.Digest); err != nil {
			return nil, err
		}
		added.Allowed = true
	}
	if err := s.Site.change(ctx, func(r *row) error {
		if at := r.find(added.Version, added.Architecture); at >= 0 {
			held := r.Releases[at]
			if held.Digest != added.Digest {
				return otherDigest(held)
			}
			added.Allowed, added.Default = held.Allowed, added.Default || held.Default
			r.Releases = slices.Delete(r.Releases, at, at+1)
		}
		for i := range r.Releases {
			if added.Default && r.Releases[i].Architecture == added.Architecture {
				r.Releases[i].Default = false
			}
		}
		r.Releases = append(r.Releases, added)
		return nil
	}); err != nil {
		return nil, err
	}
	s.releasesChanged(ctx)
	s.Logger.Info("Release added.", "version", added.Version, "architecture", added.Architecture,
		"digest", added.Digest, "by", added.By)
	image := engine.ReleaseImage{OpenshiftVersion: added.Version, CPUArchitecture: added.Architecture,
		URL: added.PullSpec, Default: added.Default}
	s.checks.note(payloadCheck(image), s.Rules(mirror.Level{}), nil)
	shown := s.release(image, false)
	return &shown, nil
}

// read reads the payload of a release. A tag is replaced by the digest that it has now, unless the
// mirror serves the release by its tag only.
func (s *Service) read(ctx context.Context, pullSpec string) (*release.Payload, error) {
	ref, err := name.ParseReference(pullSpec, name.StrictValidation)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%q is not the pull spec of a release image. Give registry, "+
			"repository and digest, such as quay.io/openshift-release-dev/ocp-release@sha256:…; oc-mirror and oc adm "+
			"release info print it.", pullSpec)
	}
	secret, err := s.Site.Offered().Keychain("")
	if err != nil {
		return nil, err
	}
	payload, err := s.Payload(ctx, pullSpec, "", secret)
	if err != nil {
		return nil, s.unreadable(pullSpec, err)
	}
	if _, tagged := ref.(name.Tag); tagged {
		if _, err := s.Digest(ctx, payload.Image, secret); err == nil {
			pullSpec = payload.Image
		}
	}
	named := *payload
	named.PullSpec = pullSpec
	return &named, nil
}

// unreadable explains why a release can't be read.
func (s *Service) unreadable(pullSpec string, err error) error {
	advice := "Check that the registry answers and holds the release, and that the site's pull secret has an entry " +
		"for it."
	switch {
	case s.Rules(mirror.Level{}).Empty():
		advice += " The site has no mirror rules: if the release is in a mirror, import its rules first."
	case !strings.Contains(pullSpec, "@"):
		advice += " If only mirror rules for digests lead to the mirror, name the release by its digest (@sha256:…)."
	default:
		advice += " If the mirror has another repository of the release, import its mirror rules."
	}
	kind := fault.Unavailable
	if fault.KindOf(err) == fault.Invalid {
		kind = fault.Invalid
	}
	return &fault.Error{Kind: kind, Err: err,
		Reason: "Release " + pullSpec + " can't be read: " + sentence.Ending(err) + " " + advice}
}

func otherDigest(held addedRelease) error {
	return fault.New(fault.Conflict, "The site has release %s for %s already, with another digest (%s). Remove "+
		"it first.", held.Version, held.Architecture, held.Digest)
}

// checkNew rejects a release that contradicts another. The first release is the default.
func (s *Service) checkNew(added *addedRelease) error {
	hasDefault := false
	for _, image := range s.Site.options.Fixed.Releases {
		if image.OpenshiftVersion == added.Version && image.CPUArchitecture == added.Architecture {
			return fault.New(fault.Conflict, "Release %s for %s is already in the configuration file (key "+
				"release_images).", added.Version, added.Architecture)
		}
		if image.Default && image.CPUArchitecture == added.Architecture && added.Default {
			return fault.New(fault.Conflict, "The configuration file (key release_images) makes %s the default "+
				"release for %s. Remove default: true there, or add the release without making it the default.",
				image.OpenshiftVersion, image.CPUArchitecture)
		}
	}
	for _, image := range s.Site.Releases() {
		hasDefault = hasDefault || image.Default && image.CPUArchitecture == added.Architecture
	}
	added.Default = added.Default || !hasDefault
	set := s.Site.values.Load()
	if at := set.find(added.Version, added.Architecture); at >= 0 && set.row.Releases[at].Digest != added.Digest {
		return otherDigest(set.row.Releases[at])
	}
	return nil
}

func (s *Service) allowed(digest string) (bool, error) {
	list, err := s.Trust.List()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.Releases, func(r trust.Release) bool { return r.Digest == digest }), nil
}

// releasesChanged brings everything that depends on the releases up to date.
func (s *Service) releasesChanged(ctx context.Context) {
	s.Engine.RefreshImages(ctx, mirror.Level{})
	if s.Wake != nil {
		s.Wake()
	}
}

// RemoveRelease removes a release that an administrator added.
func (s *Service) RemoveRelease(ctx context.Context, version, cpu string) error {
	cpu = cmp.Or(architecture.Of(cpu).API(), cpu)
	for _, image := range s.Site.options.Fixed.Releases {
		if image.OpenshiftVersion == version && image.CPUArchitecture == cpu {
			return fault.New(fault.Conflict, "The configuration file names release %s for %s (key release_images). "+
				"Remove it there and restart the appliance.", version, cpu)
		}
	}
	at := s.Site.values.Load().find(version, cpu)
	if at < 0 && slices.ContainsFunc(s.Site.Releases(), func(r engine.ReleaseImage) bool {
		return r.OpenshiftVersion == version && r.CPUArchitecture == cpu
	}) {
		return fault.New(fault.Conflict, "Release %s for %s was not added here: it is on a medium of the appliance's "+
			"registry. To offer it no longer, enter landfall release forget with its digest.", version, cpu)
	}
	if at < 0 {
		return fault.New(fault.NotFound, "The site has no release %s for %s; landfall settings show lists the "+
			"releases.", version, cpu)
	}
	removed := s.Site.values.Load().row.Releases[at]
	var inUse bool
	if err := s.Site.changeIn(ctx, func(tx *store.Tx, r *row) (err error) {
		if inUse, err = s.checkUnused(tx, removed); err != nil {
			return err
		}
		r.Releases = slices.DeleteFunc(r.Releases, func(r addedRelease) bool { return r.is(version, cpu) })
		s.Site.keepDefault(r, removed)
		return nil
	}); err != nil {
		return err
	}
	if removed.Allowed && !inUse {
		if err := s.Trust.Forget(ctx, removed.Digest); err != nil && fault.KindOf(err) != fault.NotFound {
			return err
		}
	}
	s.releasesChanged(ctx)
	s.Logger.Info("Release removed.", "version", version, "architecture", cpu, "by", access.From(ctx).String())
	return nil
}

// checkUnused returns an error if an infra-env or a cluster that is not installed needs a release.
// It reports whether an installed cluster still uses the release.
func (s *Service) checkUnused(tx *store.Tx, removed addedRelease) (inUse bool, err error) {
	own := map[string]bool{} // clusters whose release does not depend on the list
	if err := record.Clusters.Each(tx, "", func(id string, cluster *record.Cluster) error {
		image := cluster.API.OcpReleaseImage
		own[id] = image != ""
		if image == "" || image != removed.PullSpec && !strings.HasSuffix(image, "@"+removed.Digest) {
			return nil
		}
		inUse = true
		if !slices.Contains([]string{lifecycle.ClusterInstalled, lifecycle.ClusterAddingHosts},
			conv.Value(cluster.API.Status)) {
			return needed(removed, "cluster "+cluster.API.Name, "Install or delete the cluster first.")
		}
		return nil
	}); err != nil {
		return inUse, err
	}
	return inUse, record.InfraEnvs.Each(tx, "", func(_ string, row *record.InfraEnv) error {
		env := &row.API
		if !own[env.ClusterID.String()] && s.needs(env, removed) {
			inUse = true
			return needed(removed, "infra-env "+conv.Value(env.Name), "Delete the infra-env first.")
		}
		return nil
	})
}

// needs reports whether the hosts of an infra-env without a cluster take their agent from a
// release.
func (s *Service) needs(env *models.InfraEnv, removed addedRelease) bool {
	site := description.Site{Releases: s.Site.Releases()}
	found, err := site.FindRelease(env.OpenshiftVersion, env.CPUArchitecture, "")
	return err == nil && found.URL == removed.PullSpec
}

func needed(removed addedRelease, by, advice string) error {
	return fault.New(fault.Conflict, "Release %s for %s is needed by %s. %s", removed.Version, removed.Architecture, by,
		advice)
}

// diagnoses has the last report of the doctor about the site. It is in the bucket of the settings,
// so that the live feed reports its changes.
var diagnoses = store.NewBucket[doctor.Report]("settings", 1)

const diagnosisKey = "doctor"

// NoteDiagnosis stores a report of the doctor about the site.
func (s *Service) NoteDiagnosis(ctx context.Context, report *doctor.Report) error {
	if err := s.Site.options.DB.Update(ctx, func(tx *store.Tx) error {
		return diagnoses.Put(tx, diagnosisKey, report)
	}); err != nil {
		return fmt.Errorf("store the doctor's report: %w", err)
	}
	return nil
}

// diagnosis returns the last report of the doctor about the site, or nil if there is none or its
// row is damaged.
func (s *Service) diagnosis() (report *doctor.Report, err error) {
	err = s.Site.options.DB.View(func(tx *store.Tx) error {
		report, err = diagnoses.Get(tx, diagnosisKey)
		return store.SkipDamaged(ignoreNotFound(err))
	})
	return report, err
}

var errFound = errors.New("found")

// hasHosts reports whether a host has registered.
func (s *Service) hasHosts() (bool, error) {
	err := s.Site.options.DB.View(func(tx *store.Tx) error {
		return record.Hosts.Keys(tx, "", func(string) error { return errFound })
	})
	if errors.Is(err, errFound) {
		return true, nil
	}
	return false, err
}
