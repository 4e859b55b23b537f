"""The parts of a step that goes to instances of a service or to a queue (SPEC section 13).

options    reads from the definition how a step is dispatched
dispatch   sends the parts out, sends them again after a crash, abandons them
instances  the instances that were chosen, their answers, and another one for a draining one
no_instance  the end of a step for which no instance is left
queue      the parts that instances claim from a queue
join       the results of all parts as one result of the step
"""
