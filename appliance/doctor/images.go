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

// Contents is a release whose images the site must hold.
type MirroredRelease struct {
	// Release is the version or the pull spec.
	Name string
	// Prove requests every image with every layer. Its error is a sentence that says why it cannot.
	Prove func(context.Context) (*prover.ReleaseReport, error)
	// Anonymous reports whether there is no pull secret. A refusal then has no meaning.
	Anonymous bool
}

const (
	// contentsPatience limits the time for all releases together. A mirror nearby takes a few
	// seconds for each.
	mirrorTimeout = time.Minute
	// gapsNamed is the maximum number of images without a common cause that are named separately.
	maxGapsListed = 10
)

// contents requests the images of the site's releases. It does not repeat problems with a
// registry's endpoint for each of its images.
func (e *diagnosis) checkMirroredReleases(ctx context.Context, doors []Finding) []Finding {
	ctx, cancel := context.WithTimeout(ctx, mirrorTimeout)
	defer cancel()
	shut := make(map[string]bool)
	for _, door := range doors {
		if door.Area == Registries && door.Status == Red {
			shut[door.Subject] = true
		}
	}
	var found []Finding
	for _, c := range e.site.MirroredReleases {
		finding := Finding{Area: Images, Subject: "release " + c.Name, Status: Green,
			Check: "each image by its digest, with each layer, where nodes will ask for it"}
		report, err := c.Prove(ctx)
		switch {
		case ctx.Err() != nil:
			finding.Status, finding.Result = Unknown, "not all in time"
			finding.Advice = "Ask for as long as it takes: landfall mirror prove, or the page Mirror."
		case err != nil:
			finding.Status, finding.Result = Unknown, err.Error()
			finding.Advice = "Correct this problem, and check again."
		case report.Complete():
			finding.Result = report.Summary()
		default:
			found = append(found, gapFindings(report, finding, c, shut)...)
			continue
		}
		found = append(found, finding)
	}
	return append(found, e.ruleFindings(found)...)
}

// gaps reports each problem once: a faulty registry, a repository without a rule, a missing image.
func gapFindings(report *prover.ReleaseReport, asked Finding, c MirroredRelease, shut map[string]bool) []Finding {
	var found []Finding
	add := func(verdict Status, subject, text string) {
		finding := asked
		finding.Status, finding.Subject = verdict, subject
		finding.Result, finding.Advice = split(text)
		found = append(found, finding)
	}
	for _, fault := range report.Faults {
		host, _, _ := strings.Cut(fault.Where, "/")
		switch {
		case shut[host]:
			add(Unknown, asked.Subject, fmt.Sprintf("%d images could not be asked for; see what is said of %s.",
				fault.Images, host))
		case fault.Verdict == prover.Unauthorized && c.Anonymous:
			add(Unknown, asked.Subject,
				fmt.Sprintf("%s wants a password, and the appliance itself has none; set mirror.pull_secret, or look "+
					"at the site for a cluster.", host))
		default:
			add(Red, fault.Where, fault.Text)
		}
	}
	repositories, more := make(map[string]int), 0
	for i := range report.Results {
		result := &report.Results[i]
		if !result.Gap() || result.Text == "" {
			continue
		}
		ref, err := name.ParseReference(result.Ref)
		if result.Verdict == prover.NoRule && result.Elsewhere == "" || result.Verdict == prover.TagRule {
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
			more++
		}
	}
	for i := range found {
		if n := repositories[strings.TrimPrefix(found[i].Subject, "images of ")]; n > 1 {
			found[i].Result = fmt.Sprintf("%s (and %d more of that repository)", found[i].Result, n-1)
		}
	}
	if more > 0 {
		add(Red, asked.Subject,
			fmt.Sprintf("%d more images are not available; landfall mirror prove, or the page Mirror, lists them for "+
				"the "+
				"courier.", more))
	}
	return found
}

func imageName(result *prover.Result) string {
	if len(result.Names) > 0 {
		return strings.Join(result.Names, ", ")
	}
	return result.Ref
}

// split splits a sentence of the prover into the answer and the advice.
func split(text string) (answered, do string) {
	answered, do, _ = strings.Cut(text, "; ")
	if do == "" {
		return answered, ""
	}
	return answered, strings.ToUpper(do[:1]) + do[1:]
}

// holes returns findings about grave holes of the mirror rules. It omits a hole if the findings
// about images mention it already.
func (e *diagnosis) ruleFindings(said []Finding) []Finding {
	var found []Finding
	for _, hole := range e.site.Holes {
		known := slices.ContainsFunc(said, func(f Finding) bool {
			return f.Status == Red && (strings.Contains(f.Subject, hole.Prefix) || strings.Contains(f.Result,
				hole.Prefix))
		})
		if !hole.Grave || known {
			continue
		}
		answered, do := split(strings.Replace(hole.Text, ". ", "; ", 1))
		found = append(found, Finding{Area: Images, Subject: "rule for " + hole.Prefix, Status: Red,
			Check: "whether the mirror rules have holes", Result: answered, Advice: do})
	}
	return found
}
