package mirror

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
)

// addHandList reads a hand-written list. Each line has a source and its mirrors, separated by
// blanks, "=" or "->".
//
//	# the release
//	quay.io/openshift-release-dev/ocp-release = mirror.example.com:5000/openshift/release-images
//	quay.io/prometheus  mirror.example.com:5000/prometheus  mirror2.example.com/prometheus
//
// A line with an image (oc-mirror's mapping.txt, oc image mirror -f) applies to the image's
// repository; its tag and digest are ignored. The mirrors serve digests and tags.
func (s *mirrorSets) addHandList(doc Document) error {
	scanner := bufio.NewScanner(bytes.NewReader(doc.Data))
	for number := 1; scanner.Scan(); number++ {
		text, _, _ := strings.Cut(scanner.Text(), "#")
		fields := strings.Fields(strings.NewReplacer("->", " ", "=", " ", ",", " ").Replace(text))
		if len(fields) == 0 {
			continue
		}
		where := fmt.Sprintf("line %d", number)
		if len(fields) == 1 {
			return &InputError{doc.Name, where,
				fmt.Sprintf("%q has no mirror; expected a source and at least one mirror, such as quay.io/team = "+
					"mirror.example.com/team", fields[0])}
		}
		source := bareRepository(fields[0])
		if problem := checkSource(source); problem != "" {
			return &InputError{doc.Name, where, fmt.Sprintf("the source %q %s", fields[0], problem)}
		}
		var mirrors []mirror
		for _, field := range fields[1:] {
			location := bareRepository(field)
			if problem := checkLocation(location); problem != "" {
				return &InputError{doc.Name, where, fmt.Sprintf("the mirror %q %s", field, problem)}
			}
			mirrors = append(mirrors, mirror{location: location, use: useAll})
		}
		src := s.source(source)
		src.lists = append(src.lists, mirrors)
		if !strings.Contains(src.origin, doc.Name) {
			src.origin = strings.TrimPrefix(src.origin+" and "+doc.Name, " and ")
		}
	}
	if err := scanner.Err(); err != nil {
		return &InputError{doc.Name, "", "is not a list of sources and mirrors: " + err.Error()}
	}
	return nil
}

// bareRepository removes the scheme that skopeo writes, the tag and the digest.
func bareRepository(image string) string {
	image = strings.TrimSuffix(strings.TrimPrefix(image, "docker://"), "/")
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndexByte(image, ':'); colon > strings.LastIndexByte(image, '/') &&
		strings.Contains(image, "/") {
		image = image[:colon]
	}
	return image
}
