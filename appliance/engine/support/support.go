// Package support holds the support level of each feature, architecture and operator of OpenShift
// by version, architecture and platform. Its tables (features.go, operators.go) are those of the
// Assisted Installer (internal/featuresupport, internal/operators). Queries are pure functions.
//
// Design: docs/design.md#platforms-as-data.
package support

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/architecture"
	"landfall/appliance/engine/operator"
)

// Query describes the clusters for which a support level is requested.
type Query struct {
	Version      string              // version of OpenShift, "4.19" or "4.19.3"
	Architecture string              // x86_64, aarch64 or arm64, ppc64le, s390x, multi
	Platform     models.PlatformType // "" for all platforms
	External     string              // name of the external platform
}

// Feature is the level of a feature, with the reason if it is not supported.
type Feature struct {
	ID                models.FeatureSupportLevelID
	Level             models.SupportLevel
	Reason            models.IncompatibilityReason
	Incompatibilities []models.FeatureSupportLevelID
	Operator          string // the operator's name, or ""
	Dependencies      []models.FeatureSupportLevelID
}

// oracle is the name of Oracle's external platform.
const oracle = "oci"

// minor is an OpenShift version without its patch number. Its values are ordered.
type minor struct{ major, minor int }

func (m minor) before(version string) bool {
	other, _ := parseMinor(version)
	return m.major < other.major || m.major == other.major && m.minor < other.minor
}

func (m minor) is(version string) bool {
	other, _ := parseMinor(version)
	return m == other
}

func parseMinor(version string) (minor, bool) {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return minor{}, false
	}
	number, _, _ := strings.Cut(parts[1], "-")
	major, err1 := strconv.Atoi(parts[0])
	second, err2 := strconv.Atoi(number)
	return minor{major, second}, err1 == nil && err2 == nil
}

// versionForm matches OpenShift versions such as 4.19, 4.19.3 and 4.20.0-rc.1.
var versionForm = regexp.MustCompile(`^\d+\.\d+(\.\d+)?(-[0-9A-Za-z.-]+)?$`)

// Check rejects a query with an invalid version. It also rejects an architecture or platform that
// the version does not support. The error is a sentence.
func (q Query) Check() error {
	if err := CheckVersion(q.Version); err != nil {
		return err
	}
	if !available(architectureLevel(architectureID(q.Architecture), q.Version)) {
		return fmt.Errorf("OpenShift %s is not available for the architecture %s", q.Version, q.Architecture)
	}
	if q.Platform == "" {
		return nil
	}
	open := q
	open.Platform = ""
	for _, f := range features() {
		if f.id == PlatformFeature(q.Platform, q.External) {
			if level, _ := f.level(open); !available(level) {
				return fmt.Errorf("the platform %s is not available with OpenShift %s on %s", q.Platform, q.Version,
					q.Architecture)
			}
			return nil
		}
	}
	return fmt.Errorf("unknown platform %q", q.Platform)
}

// CheckVersion rejects an invalid OpenShift version. The error is a sentence.
func CheckVersion(version string) error {
	if !versionForm.MatchString(version) {
		return fmt.Errorf("the OpenShift version %q is invalid; give a version such as 4.19 or 4.19.3", version)
	}
	return nil
}

// CheckUse returns an error if a cluster that matches the query cannot use the features: one of
// them is not available, or two exclude each other. The error is a sentence.
func (q Query) CheckUse(used []models.FeatureSupportLevelID) error {
	open := q
	open.Platform = ""
	for _, f := range features() {
		if !slices.Contains(used, f.id) {
			continue
		}
		if level, reason := f.level(q); level == models.SupportLevelUnavailable {
			platform := ""
			if q.Platform != "" {
				platform = fmt.Sprintf(", platform %s", q.Platform)
			}
			return fmt.Errorf("the feature %s is not available with OpenShift %s on %s%s%s", name(f.id),
				q.Version, q.Architecture, platform, because(reason))
		}
		for _, other := range f.conflicts(open) {
			if slices.Contains(used, other) {
				return fmt.Errorf("the features %s and %s can't be used together with OpenShift %s", name(f.id),
					name(other), q.Version)
			}
		}
	}
	return nil
}

// name returns the title of an operator. For other features it returns the id.
func name(id models.FeatureSupportLevelID) string {
	for _, o := range operator.All() {
		if o.Feature == id {
			return o.Title
		}
	}
	return string(id)
}

// because returns advice about the part of the query that excludes a feature.
func because(reason models.IncompatibilityReason) string {
	switch reason {
	case models.IncompatibilityReasonPlatform:
		return "; choose another platform"
	case models.IncompatibilityReasonOpenshiftVersion:
		return "; choose another version"
	case models.IncompatibilityReasonCPUArchitecture:
		return "; choose another architecture"
	}
	return ""
}

func available(level models.SupportLevel) bool {
	return level != models.SupportLevelUnavailable && level != models.SupportLevelUnsupported
}

// PlatformFeature returns the feature of a platform, or "".
func PlatformFeature(platform models.PlatformType, external string) models.FeatureSupportLevelID {
	switch platform {
	case models.PlatformTypeBaremetal:
		return models.FeatureSupportLevelIDBAREMETALPLATFORM
	case models.PlatformTypeNone:
		return models.FeatureSupportLevelIDNONEPLATFORM
	case models.PlatformTypeNutanix:
		return models.FeatureSupportLevelIDNUTANIXINTEGRATION
	case models.PlatformTypeVsphere:
		return models.FeatureSupportLevelIDVSPHEREINTEGRATION
	case models.PlatformTypeExternal:
		if external == oracle {
			return models.FeatureSupportLevelIDEXTERNALPLATFORMOCI
		}
		return models.FeatureSupportLevelIDEXTERNALPLATFORM
	}
	return ""
}

// KnownArchitecture reports whether the API has an architecture.
func KnownArchitecture(name string) bool { return architectureID(name) != "" }

func architectureID(name string) models.ArchitectureSupportLevelID {
	a := architecture.Of(name)
	if name != a.API() && name != a.RPM() {
		return "" // Go's spelling, which the API does not use
	}
	switch a {
	case architecture.X86:
		return models.ArchitectureSupportLevelIDX8664ARCHITECTURE
	case architecture.ARM:
		return models.ArchitectureSupportLevelIDARM64ARCHITECTURE
	case architecture.Z:
		return models.ArchitectureSupportLevelIDS390XARCHITECTURE
	case architecture.Power:
		return models.ArchitectureSupportLevelIDPPC64LEARCHITECTURE
	case architecture.Multi:
		return models.ArchitectureSupportLevelIDMULTIARCHRELEASEIMAGE
	}
	return ""
}

// architectureLevel returns the support level of an architecture in an OpenShift version.
func architectureLevel(id models.ArchitectureSupportLevelID, version string) models.SupportLevel {
	v, ok := parseMinor(version)
	since := map[models.ArchitectureSupportLevelID]string{
		models.ArchitectureSupportLevelIDX8664ARCHITECTURE:     "0.0",
		models.ArchitectureSupportLevelIDARM64ARCHITECTURE:     "4.10",
		models.ArchitectureSupportLevelIDS390XARCHITECTURE:     "4.12",
		models.ArchitectureSupportLevelIDPPC64LEARCHITECTURE:   "4.12",
		models.ArchitectureSupportLevelIDMULTIARCHRELEASEIMAGE: "4.11",
	}[id]
	switch {
	case !ok || since == "" || v.before(since):
		return models.SupportLevelUnavailable
	case id == models.ArchitectureSupportLevelIDMULTIARCHRELEASEIMAGE, since == "4.12" && v.is("4.12"):
		return models.SupportLevelTechPreview
	}
	return models.SupportLevelSupported
}

// Architectures returns the level of each architecture in an OpenShift version.
func Architectures(version string) models.SupportLevels {
	levels := models.SupportLevels{}
	for _, a := range []architecture.Architecture{architecture.X86, architecture.ARM, architecture.Z,
		architecture.Power, architecture.Multi} {
		id := architectureID(a.API())
		levels[string(id)] = architectureLevel(id, version)
	}
	return levels
}

// Features returns the level of each feature for a query, ordered by id. If the query names a
// platform, the result lacks the features of platforms. Otherwise it lacks platform-managed
// networking.
func Features(q Query) []Feature {
	var found []Feature
	supported := available(architectureLevel(architectureID(q.Architecture), q.Version))
	for _, f := range features() {
		if supported && skipped(f.id, q.Platform != "") {
			continue
		}
		feature := Feature{ID: f.id, Level: models.SupportLevelUnavailable, Operator: f.operator, Dependencies: f.needs}
		if supported {
			feature.Level, feature.Reason = f.level(q)
			feature.Incompatibilities = f.conflicts(q)
		}
		found = append(found, feature)
	}
	slices.SortFunc(found, func(a, b Feature) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return found
}

func skipped(id models.FeatureSupportLevelID, platformNamed bool) bool {
	if platformNamed {
		return slices.Contains(platformFeatures(), id)
	}
	return id == models.FeatureSupportLevelIDPLATFORMMANAGEDNETWORKING
}

func platformFeatures() []models.FeatureSupportLevelID {
	return []models.FeatureSupportLevelID{
		models.FeatureSupportLevelIDNUTANIXINTEGRATION, models.FeatureSupportLevelIDVSPHEREINTEGRATION,
		models.FeatureSupportLevelIDEXTERNALPLATFORMOCI,
		models.FeatureSupportLevelIDBAREMETALPLATFORM, models.FeatureSupportLevelIDNONEPLATFORM,
		models.FeatureSupportLevelIDEXTERNALPLATFORM,
	}
}

// feature is a row of the tables.
type feature struct {
	id       models.FeatureSupportLevelID
	operator string
	needs    []models.FeatureSupportLevelID // operators that it depends on

	normal models.SupportLevel            // the default level; "" means supported
	since  string                         // the first OpenShift version with it, or ""
	until  string                         // the first version without it
	levels map[string]models.SupportLevel // exceptions by version

	notOn        []models.PlatformType // platforms without it
	onlyOn       []models.PlatformType // the only platforms with it
	notOnOracle  bool
	notFor       []models.ArchitectureSupportLevelID // architectures without it
	notForBefore map[models.ArchitectureSupportLevelID]string
	with         map[models.ArchitectureSupportLevelID]models.SupportLevel // exceptions by architecture

	against       []models.FeatureSupportLevelID            // features that exclude it
	againstBefore map[string][]models.FeatureSupportLevelID // features that exclude it before a version

	// evaluated before the other fields
	special func(Query) (models.SupportLevel, models.IncompatibilityReason, bool)
}

// level returns the support level of a feature.
func (f feature) level(q Query) (models.SupportLevel, models.IncompatibilityReason) {
	v, ok := parseMinor(q.Version)
	arch := architectureID(q.Architecture)
	if slices.Contains(f.notFor, arch) {
		return models.SupportLevelUnavailable, models.IncompatibilityReasonCPUArchitecture
	}
	if since, limited := f.notForBefore[arch]; limited && (!ok || v.before(since)) {
		return models.SupportLevelUnavailable, models.IncompatibilityReasonCPUArchitecture
	}
	if f.special != nil {
		if level, reason, decided := f.special(q); decided {
			return level, reason
		}
	}
	switch {
	case q.Platform != "" && (slices.Contains(f.notOn, q.Platform) || f.onlyOn != nil &&
		!slices.Contains(f.onlyOn, q.Platform)),
		f.notOnOracle && q.Platform == models.PlatformTypeExternal && q.External == oracle:
		return models.SupportLevelUnavailable, models.IncompatibilityReasonPlatform
	case f.since != "" && (!ok || v.before(f.since)), f.until != "" && ok && !v.before(f.until):
		return models.SupportLevelUnavailable, models.IncompatibilityReasonOpenshiftVersion
	}
	for version, level := range f.levels {
		if v.is(version) {
			return level, ""
		}
	}
	if level, other := f.with[arch]; other {
		return level, ""
	}
	if f.normal != "" {
		return f.normal, ""
	}
	return models.SupportLevelSupported, ""
}

// conflicts returns the features that exclude a feature.
func (f feature) conflicts(q Query) []models.FeatureSupportLevelID {
	against := slices.Clone(f.against)
	v, ok := parseMinor(q.Version)
	for version, more := range f.againstBefore {
		if !ok || v.before(version) {
			against = append(against, more...)
		}
	}
	return slices.DeleteFunc(against, func(id models.FeatureSupportLevelID) bool {
		return skipped(id,
			q.Platform != "")
	})
}
