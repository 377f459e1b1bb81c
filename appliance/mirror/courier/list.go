// Package courier brings images to a site by hand: a signed list of what the mirror lacks, a folder
// that a connected machine fills by it, and the way from that folder into the mirror.
package courier

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/sitekey"
)

// Purpose is what lists are signed for.
const Purpose sitekey.Purpose = "landfall shopping list v1"

// List is what to bring.
type List struct {
	// Created is UTC, to the second.
	Created time.Time
	// Release is the pull spec of the release, by digest; Version and Architecture are its, ""
	// while they are not known.
	Release, Version, Architecture string
	Items                          []Item
	// Whole: the release image itself is missing, so the list can't name what belongs to it.
	// Whoever fills it reads that from the release image, and puts the images where Rules say.
	Whole bool
	// Rules lead from source repositories to those of the mirror; needed with Whole.
	Rules []Rule
}

// Rule is a source repository or namespace and where the mirror has it.
type Rule struct{ Source, Mirror string }

// Item is one image.
type Item struct {
	// Source is its pull spec by digest, under its original name.
	Source string
	// Destination is where the rules look for it: the mirror's repository with a tag.
	Destination string
	// Names are what the release calls it; none for an image that is not the release's.
	Names []string
	// Bytes is what is missing of it; 0 if that is not known.
	Bytes int64
	// Why says what is missing, in few words.
	Why string
}

// What lines of a list begin with.
const (
	title           = "# Landfall shopping list"
	signaturePrefix = "# signature: "
	keyPrefix       = "# key: "
)

// Text writes the list as lines source@digest=destination:tag, which oc image mirror -f reads, too.
// It is what Parse reads.
func (l *List) Text(key *sitekey.Key) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s\n%s", title, l.header())
	for _, rule := range l.Rules {
		fmt.Fprintf(&out, "# rule: %s=%s\n", rule.Source, rule.Mirror)
	}
	for _, item := range l.Items {
		fmt.Fprintf(&out, "%s=%s\n", item.Source, item.Destination)
	}
	return sign(out.Bytes(), key)
}

func (l *List) header() string {
	text := fmt.Sprintf("# created: %s\n# release: %s\n", l.Created.UTC().Format(time.RFC3339), l.Release)
	if l.Version != "" {
		text += fmt.Sprintf("# version: %s\n", l.Version)
	}
	if l.Architecture != "" {
		text += fmt.Sprintf("# architecture: %s\n", l.Architecture)
	}
	if l.Whole {
		text += "# whole: true\n"
	}
	return text
}

func sign(text []byte, key *sitekey.Key) ([]byte, error) {
	text = fmt.Appendf(text, "%s%s\n", keyPrefix, key.Public())
	signature, err := key.Sign(Purpose, text)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(text, "%s%s\n", signaturePrefix, base64.StdEncoding.EncodeToString(signature)), nil
}

// CSV writes the list with the bytes of each image, for people.
func (l *List) CSV(key *sitekey.Key) ([]byte, error) {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	rows := [][]string{{"name", "source", "destination", "missing bytes", "why"}}
	for _, item := range l.Items {
		size := ""
		if item.Bytes > 0 {
			size = strconv.FormatInt(item.Bytes, 10)
		}
		rows = append(rows, []string{strings.Join(item.Names, " "), item.Source, item.Destination, size, item.Why})
	}
	if err := w.WriteAll(rows); err != nil {
		return nil, err
	}
	out.WriteString(l.header())
	return sign(out.Bytes(), key)
}

// ImageSet writes an ImageSetConfiguration (mirror.openshift.io/v2alpha1) for oc-mirror version 2.
// What is missing of the release is brought by mirroring the release again: its images under
// additionalImages would land where no rule looks.
func (l *List) ImageSet(key *sitekey.Key) ([]byte, error) {
	type image struct {
		Name string `yaml:"name"`
	}
	type platform struct {
		Architectures []string `yaml:"architectures,omitempty"`
		Release       string   `yaml:"release"`
	}
	var set struct {
		Kind       string `yaml:"kind"`
		APIVersion string `yaml:"apiVersion"`
		Mirror     struct {
			Platform         *platform `yaml:"platform,omitempty"`
			AdditionalImages []image   `yaml:"additionalImages,omitempty"`
		} `yaml:"mirror"`
	}
	set.Kind, set.APIVersion = "ImageSetConfiguration", "mirror.openshift.io/v2alpha1"
	for _, item := range l.Items {
		if len(item.Names) == 0 {
			set.Mirror.AdditionalImages = append(set.Mirror.AdditionalImages, image{item.Source})
		} else if set.Mirror.Platform == nil {
			set.Mirror.Platform = &platform{Release: l.Release}
			if l.Architecture != "" {
				set.Mirror.Platform.Architectures = []string{goArchitecture(l.Architecture)}
			}
		}
	}
	text, err := yaml.Marshal(set)
	if err != nil {
		return nil, err
	}
	return sign(append([]byte(title+" for oc-mirror\n"+l.header()), text...), key)
}

func goArchitecture(arch string) string {
	switch arch {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return arch
}

// ErrNoList is the kind of error of a file that is no list, or is damaged.
var ErrNoList = errors.New("is no shopping list")

// Parse reads a list that Text wrote, and checks that it is as it was signed. The key is the one in
// the list: that it is the site's own is known by comparing its fingerprint with the one that the
// site shows.
func Parse(data []byte) (*List, sitekey.Public, error) {
	var key sitekey.Public
	if !bytes.HasPrefix(data, []byte(title+"\n")) {
		return nil, key,
			fmt.Errorf("%w: it does not begin with %q; use the plain list of the Mirror page or of landfall mirror "+
				"list", ErrNoList, title)
	}
	at := bytes.LastIndex(data, []byte("\n"+signaturePrefix))
	if at < 0 {
		return nil, key, fmt.Errorf("%w: its signature is missing, so its end may be, too; copy it again", ErrNoList)
	}
	signed, end := data[:at+1], bytes.TrimSpace(data[at+1:])
	signature, err := base64.StdEncoding.DecodeString(string(bytes.TrimPrefix(end, []byte(signaturePrefix))))
	if err != nil {
		return nil, key, fmt.Errorf("%w: its signature is damaged; copy it again", ErrNoList)
	}
	list := new(List)
	for number, line := range strings.Split(strings.TrimSuffix(string(signed), "\n"), "\n") {
		if err := list.readLine(line, &key); err != nil {
			return nil, key, fmt.Errorf("%w: line %d: %w", ErrNoList, number+1, err)
		}
	}
	if err := key.Verify(Purpose, signed, signature); err != nil {
		return nil, key, fmt.Errorf("the shopping list can't be trusted: %w", err)
	}
	return list, key, nil
}

func (l *List) readLine(line string, key *sitekey.Public) (err error) {
	line = strings.TrimSuffix(line, "\r")
	if comment, ok := strings.CutPrefix(line, "# "); ok {
		word, value, _ := strings.Cut(comment, ": ")
		switch word {
		case "created":
			l.Created, err = time.Parse(time.RFC3339, value)
		case "release":
			l.Release = value
		case "version":
			l.Version = value
		case "architecture":
			l.Architecture = value
		case "whole":
			l.Whole = value == "true"
		case "rule":
			source, mirror, _ := strings.Cut(value, "=")
			l.Rules = append(l.Rules, Rule{source, mirror})
		case "key":
			err = key.UnmarshalText([]byte(value))
		}
		return err
	}
	source, destination, ok := strings.Cut(line, "=")
	if !ok {
		return fmt.Errorf("%q is no image and where it goes", line)
	}
	if _, err := name.NewDigest(source); err != nil {
		return fmt.Errorf("%q does not name an image by its digest", source)
	}
	if _, err := name.NewTag(destination, name.StrictValidation); err != nil {
		return fmt.Errorf("%q is no repository with a tag", destination)
	}
	l.Items = append(l.Items, Item{Source: source, Destination: destination})
	return nil
}

// components are the items of a whole release: what its image names, each where the rules put it.
func (l *List) components(version, arch string, images map[string]string) ([]Item, error) {
	var items []Item
	for tag, source := range images {
		destination := ""
		best := -1
		for _, rule := range l.Rules {
			if rest, ok := strings.CutPrefix(source, rule.Source); ok && (rest[0] == '@' || rest[0] == '/') &&
				len(rule.Source) > best {
				repository, _, _ := strings.Cut(rest, "@")
				destination, best = rule.Mirror+repository, len(rule.Source)
			}
		}
		if destination == "" {
			return nil,
				fmt.Errorf("the list has no rule for %s (%s), so it is not known where it goes; add a mirror rule at "+
					"the site and make the list again", source, tag)
		}
		items = append(items, Item{Source: source, Destination: destination + ":" + ComponentTag(version, arch, tag),
			Names: []string{tag}})
	}
	slices.SortFunc(items, func(a, b Item) int { return strings.Compare(a.Destination, b.Destination) })
	return items, nil
}

// ComponentTag is the tag that oc-mirror gives a release's component, or, without a name, the
// release image.
func ComponentTag(version, arch, component string) string {
	tag := version + "-" + arch
	if component != "" {
		tag += "-" + component
	}
	return tag
}

// DigestTag is the tag that oc-mirror gives other images.
func DigestTag(digest string) string { return strings.Replace(digest, ":", "-", 1) }
