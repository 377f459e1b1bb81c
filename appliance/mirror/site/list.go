package site

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"landfall/appliance/mirror"
	"landfall/appliance/mirror/courier"
	"landfall/appliance/mirror/prover"
	"landfall/appliance/sitekey"
)

// shoppingList lists the images that a proof found missing, with their destinations. It omits
// images that the mirror holds without a rule that leads to them: these images need a rule.
func shoppingList(report *prover.ReleaseReport, rules *mirror.Rules) *courier.List {
	list := &courier.List{
		Created: report.Started.Truncate(time.Second), Release: byDigest(report.PullSpec, report.Digest),
		Version:      report.Version,
		Architecture: report.Architecture, Whole: report.Unread,
	}
	for i := range report.Results {
		result := &report.Results[i]
		switch result.Status {
		case prover.NoRule, prover.MissingManifest, prover.MissingLayer, prover.Damaged, prover.TagRule:
		default:
			continue
		}
		digest, err := name.NewDigest(result.Ref)
		if err != nil || result.Elsewhere != "" {
			continue
		}
		item := courier.Item{Source: result.Ref, Names: result.Names, Why: string(result.Status)}
		for _, part := range result.Missing {
			item.Bytes += part.Bytes
		}
		item.Destination = destination(result, digest, rules) + ":" + itemTag(report, result, digest)
		list.Items = append(list.Items, item)
	}
	if list.Whole {
		for _, rule := range rules.List() {
			for _, m := range rule.Mirrors {
				if m.For != "tag-only" {
					list.Rules = append(list.Rules, courier.Rule{Source: rule.Prefix, Mirror: m.Location})
					break
				}
			}
		}
	}
	return list
}

// byDigest returns the release's pull spec by digest. It returns pullSpec if the digest is not
// known.
func byDigest(pullSpec, digest string) string {
	if ref, err := name.ParseReference(pullSpec); err == nil && digest != "" {
		return ref.Context().Name() + "@" + digest
	}
	return pullSpec
}

// destination returns the first repository according to the rules. For an image without a rule, it
// returns the image's path on the first mirror.
func destination(result *prover.Result, digest name.Digest, rules *mirror.Rules) string {
	if repository, _, ok := strings.Cut(result.Endpoint, "@"); ok {
		return repository
	}
	host := digest.Context().RegistryStr()
	for _, rule := range rules.List() {
		if len(rule.Mirrors) > 0 {
			host, _, _ = strings.Cut(rule.Mirrors[0].Location, "/")
			break
		}
	}
	return host + "/" + digest.Context().RepositoryStr()
}

func itemTag(report *prover.ReleaseReport, result *prover.Result, digest name.Digest) string {
	switch {
	case len(result.Names) == 0, report.Version == "":
		return courier.DigestTag(digest.DigestStr())
	case result.Names[0] == prover.ReleaseImageName:
		return courier.ComponentTag(report.Version, report.Architecture, "")
	}
	return courier.ComponentTag(report.Version, report.Architecture, result.Names[0])
}

// render returns a signed list in the given format, and its file name.
func render(list *courier.List, format string, key *sitekey.Key) (string, []byte, error) {
	date := list.Created.Format("20060102-150405")
	switch format {
	case "", "text":
		data, err := list.Text(key)
		return "landfall-list-" + date + ".txt", data, err
	case "imageset":
		data, err := list.ImageSet(key)
		return "imageset-config-" + date + ".yaml", data, err
	case "csv":
		data, err := list.CSV(key)
		return "landfall-list-" + date + ".csv", data, err
	}
	return "", nil, fmt.Errorf("the format %q does not exist; use text, imageset or csv", format)
}
