package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gchat-hooks/gchat"
)

// awaited is what one reply is waited for: a question, or, where none is known, a thread.
type awaited struct {
	question, threadKey, threadName, marker string
}

// awaitedOf reads what is waited for from the command line.
func awaitedOf(questionID, threadKey, threadName, marker string, firstOf, words []string) ([]awaited, error) {
	var all []awaited
	for _, a := range []awaited{{question: questionID}, {threadKey: threadKey}, {threadName: threadName}, {marker: marker}} {
		if a != (awaited{}) {
			all = append(all, a)
		}
	}
	if len(firstOf) == 0 && len(words) > 0 {
		return nil, fmt.Errorf("gchat-wait takes no %q", words[0])
	}
	for _, ref := range slices.Concat(firstOf, words) {
		for ref := range strings.SplitSeq(ref, ",") {
			switch ref = strings.TrimSpace(ref); {
			case ref == "":
			case strings.HasPrefix(ref, "-"):
				return nil, errors.New("--first-of takes ids, thread keys, thread names or files")
			case gchat.IsThreadName(ref):
				all = append(all, awaited{threadName: ref})
			case strings.Contains(ref, "/") || strings.HasSuffix(ref, ".json"):
				all = append(all, awaited{marker: ref})
			default: // a question's id, or a thread's key
				all = append(all, awaited{threadKey: ref})
			}
		}
	}
	switch {
	case len(all) == 0:
		return nil, errors.New("gchat-wait takes one of --question-id, --thread-key, --thread-name, --marker, or --first-of")
	case len(all) > 1 && len(firstOf) == 0:
		return nil, errors.New("gchat-wait takes only one of --question-id, --thread-key, --thread-name and --marker; for several there is --first-of")
	}
	return all, nil
}
