package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"landfall/appliance/mirror/prover"
)

// MirroredRelease is a release whose images the site must hold.
type MirroredRelease struct {
	// Name is the version or the pull spec.
	Name string
	// Prove requests every image with all its layers. Its error is a sentence for the user.
	Prove func(context.Context) (*prover.ReleaseReport, error)
	// Anonymous reports whether no pull secret is available. An authorization error is then no
	// finding about the mirror.
	Anonymous bool
}

const (
	// mirrorTimeout is the time limit for all releases together. A local mirror needs a few seconds
	// for each release.
	mirrorTimeout = time.Minute
	// maxGapsListed is the maximum number of findings about single images.
	maxGapsListed = 10
)

// checkMirroredReleases requests the images of the site's releases. It does not repeat the problem
// of a registry's endpoint for each image.
func (d *diagnosis) checkMirroredReleases(ctx context.Context, findings []Finding) []Finding {
	ctx, cancel := context.WithTimeout(ctx, mirrorTimeout)
	defer cancel()
	faultyRegistries := make(map[string]bool)
	for _, finding := range findings {
		if finding.Area == Registries && finding.Status == Red {
			faultyRegistries[finding.Subject] = true
		}
	}
	var found []Finding
	for _, c := range d.site.MirroredReleases {
		finding := Finding{Area: Images, Subject: "release " + c.Name, Status: Green,
			Check: "each image by its digest, with each layer, at the location from which nodes pull it"}
		report, err := c.Prove(ctx)
		switch {
		case ctx.Err() != nil:
			finding.Status, finding.Result = Unknown, "not all images were checked in time"
			finding.Advice = "Run the check without a time limit: landfall mirror prove, or the page Mirror."
		case err != nil:
			finding.Status, finding.Result = Unknown, err.Error()
			finding.Advice = "Correct this problem, and run the check again."
		case report.Complete():
			finding.Result = report.Summary()
		default:
			found = append(found, gapFindings(report, finding, c, faultyRegistries)...)
			continue
		}
		found = append(found, finding)
	}
	return append(found, d.ruleFindings(found)...)
}

// gapFindings returns one finding for each faulty registry, each repository without a rule, and
// each missing image.
func gapFindings(report *prover.ReleaseReport, base Finding, release MirroredRelease,
	faultyRegistries map[string]bool) []Finding {
	var found []Finding
	add := func(status Status, subject, text string) {
		finding := base
		finding.Status, finding.Subject = status, subject
		finding.Result, finding.Advice = split(text)
		found = append(found, finding)
	}
	for _, fault := range report.Faults {
		host, _, _ := strings.Cut(fault.Where, "/")
		switch {
		case faultyRegistries[host]:
			add(Unknown, base.Subject, fmt.Sprintf("%d images could not be requested; see the finding about %s.",
				fault.Images, host))
		case fault.Status == prover.Unauthorized && release.Anonymous:
			add(Unknown, base.Subject,
				fmt.Sprintf("%s requires a password, and the appliance itself has none; set mirror.pull_secret, or "+
					"run the doctor for a cluster.", host))
		default:
			add(Red, fault.Where, fault.Text)
		}
	}
	repositories, unlisted := make(map[string]int), 0
	for i := range report.Results {
		result := &report.Results[i]
		if !result.Gap() || result.Text == "" {
			continue
		}
		ref, err := name.ParseReference(result.Ref)
		if result.Status == prover.NoRule && result.Elsewhere == "" || result.Status == prover.TagRule {
			if err != nil {
				continue
			}
			repository := ref.Context().Name()
			if repositories[repository]++; repositories[repository] == 1 {
				add(Red, "images of "+repository, result.Text)
			}
			continue
		}
		if len(found) < maxGapsListed {
			add(Red, "image "+imageName(result), result.Text)
		} else {
			unlisted++
		}
	}
	for i := range found {
		if n := repositories[strings.TrimPrefix(found[i].Subject, "images of ")]; n > 1 {
			found[i].Result = fmt.Sprintf("%s (and %d more of that repository)", found[i].Result, n-1)
		}
	}
	if unlisted > 0 {
		add(Red, base.Subject,
			fmt.Sprintf("%d more images are not available; landfall mirror prove, or the page Mirror, lists them for "+
				"the "+
				"courier.", unlisted))
	}
	return found
}

func imageName(result *prover.Result) string {
	if len(result.Names) > 0 {
		return strings.Join(result.Names, ", ")
	}
	return result.Ref
}

// split splits a sentence of the prover into the result and the advice.
func split(text string) (result, advice string) {
	result, advice, _ = strings.Cut(text, "; ")
	if advice == "" {
		return result, ""
	}
	return result, strings.ToUpper(advice[:1]) + advice[1:]
}

// ruleFindings returns findings about grave problems of the mirror rules. It omits a problem that a
// finding about images contains already.
func (d *diagnosis) ruleFindings(imageFindings []Finding) []Finding {
	var found []Finding
	for _, hole := range d.site.Holes {
		reported := slices.ContainsFunc(imageFindings, func(f Finding) bool {
			return f.Status == Red && (strings.Contains(f.Subject, hole.Prefix) || strings.Contains(f.Result,
				hole.Prefix))
		})
		if !hole.Grave || reported {
			continue
		}
		result, advice := split(strings.Replace(hole.Text, ". ", "; ", 1))
		found = append(found, Finding{Area: Images, Subject: "rule for " + hole.Prefix, Status: Red,
			Check: "whether the mirror rules cover all images", Result: result, Advice: advice})
	}
	return found
}
