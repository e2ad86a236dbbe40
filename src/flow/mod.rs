//! Flows that policy has judged, remembered so that it is asked once and replies find their way back.
