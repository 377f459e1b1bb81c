// Small is a program with one module, whose packages are built in seconds.
package main

import (
	"fmt"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() { fmt.Println(cdx.NewBOM().SpecVersion) }
