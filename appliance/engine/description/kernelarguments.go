package description

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/openshift/assisted-service/models"
)

// KernelArguments returns the kernel arguments of an infra-env. The API holds them as a JSON text.
func KernelArguments(env *models.InfraEnv) (models.KernelArguments, error) {
	if env.KernelArguments == nil || *env.KernelArguments == "" {
		return nil, nil
	}
	var arguments models.KernelArguments
	if err := json.Unmarshal([]byte(*env.KernelArguments), &arguments); err != nil {
		return nil, fmt.Errorf("read the kernel arguments of infra-env %s: %w", env.ID, err)
	}
	return arguments, nil
}

// replacement matches the value of a kernel argument that replaces another.
var replacement = regexp.MustCompile(`^([^=]+)=([^=]+)=([^=]+)$`)

func kernelArgumentsField() Field[InfraEnv] {
	return Field[InfraEnv]{Name: "KernelArguments",
		set: func(d *InfraEnv, value any) error {
			return setKernelArguments(&d.API, value.(models.KernelArguments))
		},
		get: func(d *InfraEnv) (any, error) { return KernelArguments(&d.API) }}
}

// setKernelArguments sets the kernel arguments of an infra-env. An empty list clears them.
func setKernelArguments(env *models.InfraEnv, arguments models.KernelArguments) error {
	env.KernelArguments = nil
	if len(arguments) == 0 {
		return nil
	}
	for i, argument := range arguments {
		if argument == nil || argument.Operation == "" || argument.Value == "" {
			return invalid("Kernel argument %d needs an operation (append, replace or delete) and a value such as "+
				"rd.debug or console=ttyS0.", i)
		}
		switch {
		case strings.ContainsFunc(argument.Value, unicode.IsControl):
			return invalid("Kernel argument %d has a line break or another control character; leave it out.", i)
		case argument.Operation == models.KernelArgumentOperationReplace && !replacement.MatchString(argument.Value):
			return invalid("Kernel argument %d is %q, which is not a replacement; write key=old=new.",
				i, argument.Value)
		}
	}
	text, err := json.Marshal(arguments)
	if err != nil {
		return err
	}
	shown := string(text)
	env.KernelArguments = &shown
	return nil
}
