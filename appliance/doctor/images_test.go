package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/mirror"
	"landfall/appliance/mirror/prover"
)

// reportOf returns a report with the given results and one image that the mirror contains. With
// faults, the last image has the status of the fault.
func reportOf(faults []prover.Fault, results ...prover.Result) *prover.ReleaseReport {
	other := prover.Result{Image: prover.Image{Ref: "quay.io/held/image:1"}, Status: prover.Held}
	for _, fault := range faults {
		other.Status = fault.Status
	}
	return &prover.ReleaseReport{Report: prover.Report{Results: append(results, other), Faults: faults, Blobs: 7}}
}

func missing(status prover.Status, ref, tag, text string) prover.Result {
	return prover.Result{Image: prover.Image{Ref: ref, Names: []string{tag}}, Status: status, Text: text}
}

func TestImages_ofRelease(t *testing.T) {
	const art = "quay.io/openshift-release-dev/ocp-v4.0-art-dev"
	noRule := func(tag string) prover.Result {
		return missing(prover.NoRule, art+":"+tag, tag, "No rule leads from "+tag+" to a mirror; add one for "+art+".")
	}
	hole := []mirror.Hole{
		{Kind: mirror.HoleHalfRelease, Prefix: art, Grave: true, Text: "There is a rule for one and none for " +
			art + ". Mirror both."},
		{Kind: mirror.HoleOverlap, Prefix: "quay.io", Text: "Not grave."},
	}
	many := []prover.Result{}
	for i := range 14 {
		many = append(many, missing(prover.MissingManifest, fmt.Sprintf("quay.io/a/b:%d", i), fmt.Sprint("image-", i),
			"It is not there; mirror it there."))
	}
	for name, c := range map[string]struct {
		release MirroredRelease
		report  *prover.ReleaseReport
		err     error
		holes   []mirror.Hole
		red     []string // subject: result
		unknown []string
	}{
		"complete": {report: reportOf(nil), holes: hole[1:]},
		"one image is missing": {report: reportOf(nil, missing(prover.MissingManifest, "quay.io/a/b:1", "etcd",
			"m/b has no etcd; mirror it there.")), red: []string{"image etcd: m/b has no etcd"}},
		"no rule for a repository": {report: reportOf(nil, noRule("etcd"), noRule("cli"), noRule("oc")), holes: hole,
			red: []string{"images of " + art +
				": No rule leads from etcd to a mirror (and 2 more of that repository)"}},
		"a gap in the rules": {report: reportOf(nil), holes: hole,
			red: []string{"rule for " + art + ": There is a rule for one and none for " + art}},
		"more gaps than the maximum": {report: reportOf(nil, many...), red: append(namesOf(many[:maxGapsListed]),
			"release 4.19: 4 more images are not available")},
		"wrong password": {report: reportOf([]prover.Fault{{Status: prover.Unauthorized,
			Where: "m.example.com/release", Text: "m.example.com/release answered 401; check the entry.", Images: 9}}),
			red: []string{"m.example.com/release: m.example.com/release answered 401"}},
		"no password": {release: MirroredRelease{Anonymous: true},
			report: reportOf([]prover.Fault{{Status: prover.Unauthorized, Where: "m.example.com/release",
				Text: "x; y.", Images: 9}}),
			unknown: []string{"release 4.19: m.example.com requires a password, and the appliance itself has none"}},
		"faulty registry": {report: reportOf([]prover.Fault{{Status: prover.BadTLS, Where: "faulty.example.com",
			Text: "x; y.", Images: 9}}), unknown: []string{"release 4.19: 9 images could not be requested"}},
		"the proof fails": {err: errors.New("the disk is full"),
			unknown: []string{"release 4.19: the disk is full"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.release.Name, c.release.Prove = "4.19", func(context.Context) (*prover.ReleaseReport,
				error) {
				return c.report, c.err
			}
			d := &diagnosis{site: &Site{MirroredReleases: []MirroredRelease{c.release}, Holes: c.holes}}
			found := map[Status][]string{}
			for _, finding := range d.checkMirroredReleases(t.Context(),
				[]Finding{{Area: Registries, Subject: "faulty.example.com",
					Status: Red}}) {
				require.Equal(t, Images, finding.Area)
				require.Equal(t, finding.Status == Green, finding.Advice == "", finding)
				found[finding.Status] = append(found[finding.Status], finding.Subject+": "+finding.Result)
			}
			for status, expected := range map[Status][]string{Red: c.red, Unknown: c.unknown} {
				require.Len(t, found[status], len(expected), "%v", found)
				for i, text := range expected {
					require.True(t, strings.HasPrefix(found[status][i], text), "%q is not %q", found[status][i], text)
				}
			}
			require.Empty(t, found[Amber])
		})
	}
}

func namesOf(results []prover.Result) []string {
	var names []string
	for _, result := range results {
		names = append(names, "image "+result.Names[0]+": It is not there")
	}
	return names
}
